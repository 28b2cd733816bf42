// A table: searched, sorted, and drawn only where it is seen, so that 10,000 rows are as quick as ten.
import type {ComponentChildren} from "preact";
import {useLayoutEffect, useMemo, useRef, useState} from "preact/hooks";

import {address, choose} from "../address";
import {type Cell, type Field, nextSort, order, search, windowOf} from "./rows";
import {useSeen} from "./seen";

/** The height of a row, in pixels: as in the style sheet. */
const ROW = 26;

export interface Column<Row> extends Field<Row> {
  readonly title: string;
  /** The look of it, unless it is just what it has. */
  readonly show?: (row: Row) => ComponentChildren;
  /** The share of the width, in characters. */
  readonly width: number;
  readonly numbers?: boolean;
  /** Whether a narrow screen leaves it out. */
  readonly spare?: boolean;
}

interface TableProps<Row> {
  /** The subject of the table, for those who do not see it. */
  readonly label: string;
  readonly rows: readonly Row[];
  readonly columns: readonly Column<Row>[];
  readonly keyOf: (row: Row) => string;
  /** The trouble of a row, in words. It is another function where it says something else of the same rows, and only there. */
  readonly wrong?: (row: Row) => string | null;
  /** Whether rows with something wrong stay where they are, as in a log; else they come first. */
  readonly inOrder?: boolean;
  /** Where a row leads, and the column that has the link: the first one unless it is said. */
  readonly href?: (row: Row) => string;
  readonly leads?: string;
  /** The text where there are no rows. */
  readonly none?: string;
}

function text(cell: Cell): string {
  return cell === null ? "" : String(cell);
}

/** Draws rows, with the search and the order of the address bar. */
export function Table<Row>({label, rows, columns, keyOf, wrong, inOrder = false, href, leads, none}: TableProps<Row>) {
  const {q = "", sort = "", only = ""} = address.value.query;
  const found = useMemo(() => {
    const isWrong = (row: Row) => wrong !== undefined && wrong(row) !== null;
    const some = search(only === "problems" ? rows.filter(isWrong) : rows, columns, q);
    return order(some, columns, sort, inOrder ? () => false : isWrong);
  }, [rows, columns, q, sort, only, inOrder, wrong]);
  const scroller = useRef<HTMLDivElement>(null);
  const seen = useSeen(scroller);
  // The row that gets the focus as soon as it is drawn.
  const wanted = useRef<number | null>(null);
  const [, redraw] = useState({});
  const draw = windowOf(found.length, seen.top, seen.height, ROW);

  // Arrows go from row to row, also to those that are not drawn yet.
  useLayoutEffect(() => {
    const row = wanted.current === null ? null : scroller.current?.querySelector<HTMLElement>(`[data-row="${wanted.current}"]`);
    if (row != null) {
      wanted.current = null;
      // A row that leads nowhere is on the way to others.
      (row.querySelector<HTMLElement>("a, button") ?? row).focus({preventScroll: true});
    }
  });
  const onKeyDown = (event: KeyboardEvent) => {
    const own = scroller.current;
    const row = (event.target as HTMLElement).closest<HTMLElement>("[data-row]")?.dataset["row"];
    const page = Math.max(1, Math.floor(seen.height / ROW) - 2);
    const step = {ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -found.length, End: found.length}[event.key];
    if (own === null || row === undefined || step === undefined || event.ctrlKey || event.altKey || event.metaKey) {
      return;
    }
    event.preventDefault();
    // Keys may come faster than rows are drawn: each goes on from where the one before leads.
    const next = Math.max(0, Math.min(found.length - 1, (wanted.current ?? Number(row)) + step));
    const top = next * ROW;
    if (top < own.scrollTop) {
      own.scrollTop = top;
    } else if (top + 2 * ROW > own.scrollTop + own.clientHeight) {
      own.scrollTop = top + 2 * ROW - own.clientHeight;
    }
    wanted.current = next;
    redraw({});
  };

  const width = (some: readonly Column<Row>[]) => some.reduce((sum, column) => sum + column.width, 0);
  const [all, narrow] = [width(columns), width(columns.filter(({spare}) => spare !== true))];
  const look = ({numbers, spare}: Column<Row>) => `${numbers === true ? "number" : ""}${spare === true ? " spare" : ""}`;
  const sorted = sort.replace(/^-/, "");
  return (
    <div class="table" ref={scroller} onKeyDown={onKeyDown} tabIndex={0} role="region" aria-label={label}>
      <table aria-rowcount={found.length + 1} style={{"--wide": `${all}ch`, "--narrow": `${narrow}ch`}}>
        <caption class="unseen">{label}</caption>
        <colgroup>
          {columns.map((column) => <col key={column.name} class={look(column)} style={{width: `${(100 * column.width) / all}%`}} />)}
        </colgroup>
        <thead>
          <tr aria-rowindex={1}>
            {columns.map((column) => {
              const {name, title, numbers = false} = column;
              return (
                <th key={name} scope="col" class={look(column)} aria-sort={sorted !== name ? "none" : sort.startsWith("-") ? "descending" : "ascending"}>
                  <button type="button" onClick={() => choose({sort: nextSort(sort, name, numbers)})}>
                    {title}<span aria-hidden="true">{sorted !== name ? "" : sort.startsWith("-") ? " ↓" : " ↑"}</span>
                  </button>
                </th>
              );
            })}
          </tr>
        </thead>
        <tbody>
          {draw.first > 0 && <Space rows={draw.first} columns={columns.length} />}
          {found.slice(draw.first, draw.end).map((row, offset) => {
            const why = wrong?.(row) ?? null;
            return (
              <tr key={keyOf(row)} data-row={draw.first + offset} tabIndex={-1} aria-rowindex={draw.first + offset + 2}
                class={why === null ? "" : "wrong"} title={why ?? undefined}>
                {columns.map((column) => {
                  const {name, of, show} = column;
                  const plain = show === undefined ? text(of(row)) : show(row);
                  const cell = name === (leads ?? columns[0]?.name) && href !== undefined ? <a href={href(row)}>{plain}</a> : plain;
                  return <td key={name} class={look(column)} title={why === null && typeof plain === "string" && plain !== "" ? plain : undefined}>{cell}</td>;
                })}
              </tr>
            );
          })}
          {draw.end < found.length && <Space rows={found.length - draw.end} columns={columns.length} />}
        </tbody>
      </table>
      {found.length === 0 && <p class="none">{rows.length === 0 ? none ?? "There is nothing." : "No row has all of these words."}</p>}
    </div>
  );
}

/** The room of rows that are not drawn. */
function Space({rows, columns}: {readonly rows: number; readonly columns: number}) {
  return <tr aria-hidden="true" class="space"><td colSpan={columns} style={{height: `${rows * ROW}px`}} /></tr>;
}

interface SearchProps {
  readonly label: string;
  /** The label where there is one row. */
  readonly one: string;
  /** The number of rows, and of those that have something wrong. */
  readonly count: number | undefined;
  readonly problems?: number;
  readonly children?: ComponentChildren;
}

/** The field above a table that searches it, with what there is. */
export function SearchBar({label, one, count, problems, children}: SearchProps) {
  const {q = "", only = ""} = address.value.query;
  return (
    <div class="bar" role="search">
      <input type="search" aria-label={`Search ${label}`} placeholder="Search: words, or column=value" value={q} data-search
        onInput={(event) => choose({q: event.currentTarget.value})} />
      {problems !== undefined && problems > 0 && (
        <label class="choice">
          <input type="checkbox" checked={only === "problems"}
            onChange={(event) => choose({only: event.currentTarget.checked ? "problems" : undefined})} />
          only problems ({problems})
        </label>
      )}
      {children}
      <span class="count" role="status">{count === undefined ? "reading …" : `${count.toLocaleString("en")} ${count === 1 ? one : label}`}</span>
    </div>
  );
}
