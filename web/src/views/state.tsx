// Tracked state: tables and variables, live, with who wrote what, and editing for those who may.
import {useMemo, useState} from "preact/hooks";

import {address, choose, format} from "../address";
import {Problem, send} from "../api/ask";
import {refresh, TRACKED, useAnswer} from "../api/resource";
import {may} from "../api/session";
import type {Json, List, StateRow, ValueRow} from "../api/types";
import {type Names, useNames} from "../names";
import {chosen, title, Trouble, Writer} from "../parts";
import {type Column, SearchBar, Table} from "../table/table";
import {moment, whole} from "../text";
import {History} from "./history";
import {change, isTyped, meant, named, shown} from "./value";

/** Shows what is tracked, or one table or variable of it. */
export function StateView() {
  const [, kind, name] = address.value.path;
  title(name ?? "State");
  return (
    <div class="view">
      {name !== undefined && kind === "table" ? <OneTable key={name} name={name} />
        : name !== undefined && kind === "variable" ? <OneVariable key={name} name={name} />
        : <All />}
    </div>
  );
}

function All() {
  const {data, problem} = useAnswer<List<StateRow>>("/v1/state", TRACKED);
  const columns = useMemo<Column<StateRow>[]>(() => [
    {name: "name", title: "name", of: nameOf, width: 24},
    {name: "kind", title: "kind", of: (row) => (row.table === undefined ? "variable" : "table"), width: 10},
    {name: "types", title: "types", of: types, width: 30},
    {name: "keys", title: "keys", of: (row) => row.keys ?? null, show: (row) => whole(row.keys), width: 9, numbers: true},
    {name: "kept", title: "survives a restart", of: (row) => (row.kept ? "yes" : "no"), width: 16},
    {name: "written", title: "last write", of: (row) => row.written?.at ?? null, show: (row) => <Writer written={row.written} />, width: 36},
  ], []);
  return (
    <>
      <h1 class="unseen">State</h1>
      <SearchBar label="tables and variables" one="table or variable" count={data?.total} />
      <Trouble problem={problem} />
      <Table label="Tables and variables" rows={data?.rows ?? []} columns={columns} keyOf={(row) => `${row.table === undefined} ${nameOf(row)}`}
        href={(row) => format(["state", row.table === undefined ? "variable" : "table", nameOf(row)])} none="The policy tracks no tables and no variables." />
    </>
  );
}

function nameOf(row: StateRow): string {
  return row.table ?? row.var ?? "";
}

function types({table, key, value}: StateRow): string {
  return table === undefined ? value ?? "" : key == null && value === null ? "" : `${key ?? "any"} → ${value ?? "any"}`;
}

function OneTable({name}: {readonly name: string}) {
  const path = `/v1/state/tables/${encodeURIComponent(name)}`;
  const {data, problem} = useAnswer<List<ValueRow>>(path, TRACKED);
  const names = useNames();
  const typed = useTyped("table", name);
  const [isAdding, setAdding] = useState(false);
  const own = chosen("key");
  const key = keyOf(own);
  const row = data?.rows.find((one) => JSON.stringify(one.key) === own);
  const columns = useMemo<Column<ValueRow>[]>(() => [
    {name: "key", title: "key", of: (row) => named(row.key ?? null, names), width: 34,
      show: (row) => {
        const own = JSON.stringify(row.key);
        return <a href={format(address.value.path, {...address.value.query, key: chosen("key") === own ? undefined : own})} aria-expanded={chosen("key") === own}>{named(row.key ?? null, names)}</a>;
      }},
    {name: "value", title: "value", of: (row) => named(row.value, names), width: 40},
    {name: "by", title: "written by", of: (row) => row.written?.by ?? null, width: 30},
    {name: "at", title: "at", of: (row) => row.written?.at ?? null, show: (row) => (row.written === null ? "" : moment(row.written.at)), width: 20},
  ], [names]);
  return (
    <>
      <div class="head"><h1><a href={format(["state"])}>State</a> / {name}</h1></div>
      <SearchBar label="keys" one="key" count={data?.total}>
        {may("state") && <button type="button" onClick={() => setAdding(true)}>Add a key</button>}
      </SearchBar>
      <Trouble problem={problem} />
      {isAdding && <Editor table={name} typed={typed} names={names} end={() => {
        setAdding(false);
        refresh(path);
      }} />}
      {key !== undefined && data !== undefined && may("state") && <Editor key={chosen("key")} table={name} typed={typed} of={{key, row}} names={names} end={() => {
        // The answer to a write may come when another key is chosen already.
        if (chosen("key") === own) {
          choose({key: undefined});
        }
        refresh(path);
      }} />}
      <Table label={`Keys of ${name}`} rows={data?.rows ?? []} columns={columns} keyOf={(row) => JSON.stringify(row.key)} none="It has no keys." />
      {key !== undefined && <div class="below"><History title={`Changes of ${named(key, names)}`} of={{table: name, key}} /></div>}
    </>
  );
}

/** The key that the address names; `undefined` if it names none. */
function keyOf(text: string): Json | undefined {
  try {
    return text === "" ? undefined : JSON.parse(text) as Json;
  } catch {
    return undefined;
  }
}

/** Whether a table or variable takes one kind of value only; `undefined` until it is known. */
function useTyped(kind: "table" | "var", name: string): boolean | undefined {
  const {data} = useAnswer<List<StateRow>>("/v1/state", TRACKED);
  return data === undefined ? undefined : isTyped(data.rows.find((row) => row[kind] === name)?.value ?? null);
}

/** Says that a text is not a value of the kind that is there. */
function notAlike(before: Json | undefined): Problem {
  return new Problem(400, `this is not of the kind of ${shown(before ?? null)}, which is there`);
}

/** Writes what a key has, or a new key. */
function Editor({table, typed, of, names, end}: {
  readonly table: string;
  readonly typed: boolean | undefined;
  readonly of?: {readonly key: Json; readonly row: ValueRow | undefined};
  readonly names: Names;
  readonly end: () => void;
}) {
  const [key, setKey] = useState("");
  // What was there when editing began. If somebody writes meanwhile, the change is refused.
  const [row] = useState(of?.row);
  const [value, setValue] = useState(row === undefined ? "" : shown(row.value));
  const [problem, setProblem] = useState<Problem | null>(null);
  const write = (after: Json | undefined) => {
    if (after === undefined) {
      setProblem(notAlike(row?.value));
      return;
    }
    const place = {key: [table, of === undefined ? {word: key.trim()} : of.key]};
    send("POST", "/v1/state/transactions", change(place, row?.value, after)).then(end, setProblem);
  };
  return (
    <form class="bar edit" onSubmit={(event) => {
      event.preventDefault();
      write(meant(value, row?.value, typed === true, (word) => names.id(word)));
    }}>
      {of === undefined
        ? <label>key <input size={24} required value={key} onInput={(event) => setKey(event.currentTarget.value)} /></label>
        : <span><strong>{named(of.key, names)}</strong></span>}
      <label class="wide">value <input size={30} required value={value} onInput={(event) => setValue(event.currentTarget.value)} /></label>
      <button type="submit" class="main" disabled={typed === undefined}>Write</button>
      {row !== undefined && <button type="button" onClick={() => write(null)}>Delete</button>}
      <button type="button" onClick={end}>Cancel</button>
      <Trouble problem={problem} />
    </form>
  );
}

function OneVariable({name}: {readonly name: string}) {
  const path = `/v1/state/variables/${encodeURIComponent(name)}`;
  const {data, problem} = useAnswer<ValueRow>(path, TRACKED);
  const names = useNames();
  const typed = useTyped("var", name);
  const [value, setValue] = useState<string | null>(null);
  // What was there when editing began. If somebody writes meanwhile, the change is refused.
  const [before, setBefore] = useState<ValueRow["value"]>(null);
  const [refused, setRefused] = useState<Problem | null>(null);
  return (
    <>
      <div class="head"><h1><a href={format(["state"])}>State</a> / {name}</h1></div>
      <Trouble problem={problem} />
      {data !== undefined && (
        <dl class="facts wide">
          <div><dt>value</dt><dd>{named(data.value, names)}</dd></div>
          <div><dt>written by</dt><dd><Writer written={data.written} /></dd></div>
        </dl>
      )}
      {may("state") && data !== undefined && (
        <form class="bar edit" onSubmit={(event) => {
          event.preventDefault();
          const expected = value === null ? data.value : before;
          const after = meant(value ?? shown(data.value), expected, typed === true, (word) => names.id(word));
          if (after === undefined) {
            setRefused(notAlike(expected));
            return;
          }
          send("POST", "/v1/state/transactions", change({var: name}, expected, after)).then(() => {
            setValue(null);
            setRefused(null);
            refresh(path);
          }, setRefused);
        }}>
          <label class="wide">value <input size={30} required value={value ?? shown(data.value)} onInput={(event) => {
            if (value === null) {
              setBefore(data.value);
            }
            setValue(event.currentTarget.value);
          }} /></label>
          <button type="submit" class="main" disabled={value === null || typed === undefined}>Write</button>
          <Trouble problem={refused} />
        </form>
      )}
      <History title="Changes" of={{var: name}} />
    </>
  );
}
