// Small parts that views share.
import {type ComponentChildren, Fragment} from "preact";
import {useLayoutEffect, useRef} from "preact/hooks";

import type {Problem} from "./api/ask";
import type {Written} from "./api/types";
import {address, format} from "./address";
import {useNames} from "./names";
import {LISTS} from "./table/rows";
import {base, lineOf, moment, parts} from "./text";

/** The address of a source line. */
export function lineHref(file: string, line: number): string {
  return format(["policy"], {file, line: String(line)});
}

/** A text with names in the place of ids, whose source lines lead to the policy. Their files have no folders there, so that the number is seen. */
export function Lined({text}: {readonly text: string | null | undefined}) {
  const names = useNames();
  return text == null ? null : (
    <>
      {parts(names.inText(text)).map((part, at) => (
        typeof part === "string" ? part : <a key={at} href={lineHref(part.file, part.line)} title={part.text}>{base(part.file)}:{part.line}</a>
      ))}
    </>
  );
}

/** Source lines that are a field of their own, which lead to the policy. */
export function Lines({of}: {readonly of: readonly string[]}) {
  return <>{of.map((field, at) => <Fragment key={field}>{at > 0 && LISTS}<Line of={field} /></Fragment>)}</>;
}

/** One of these. What else stands in its place is a text. */
export function Line({of}: {readonly of: string}) {
  const named = lineOf(of);
  return named === null ? <Lined text={of} /> : <>{named.before}<a href={lineHref(named.file, named.line)} title={of}>{base(named.file)}:{named.line}</a></>;
}

/** A match or a list of actions, which may go on in the next line after a comma or a mask's slash. */
export function Listed({text}: {readonly text: string}) {
  return <code>{text.split(/(?<=[,/])/).map((part, at) => (at === 0 ? part : <><wbr />{part}</>))}</code>;
}

/** Why something could not be read; nothing if it could. */
export function Trouble({problem}: {readonly problem: Problem | null}) {
  // That there is no connection at all is said above the page.
  if (problem === null || problem.status === 0 || problem.status === 401) {
    return null;
  }
  return <p class="trouble" role="alert"><Lined text={problem.message} /></p>;
}

/** Views beside each other. Where they have no room, the one that is shown is in sight. */
export function Tabs({label, at, tabs, kind = "tabs"}: {
  readonly label: string;
  readonly at: string;
  readonly tabs: readonly (readonly [name: string, title: string, href: string])[];
  readonly kind?: "tabs" | "views";
}) {
  const own = useRef<HTMLElement>(null);
  useLayoutEffect(() => own.current?.querySelector("[aria-current]")?.scrollIntoView({block: "nearest", inline: "nearest"}), [at]);
  return (
    <nav class={kind} ref={own} aria-label={label}>
      {tabs.map(([name, title, href]) => (
        <a key={name} href={href} aria-current={name === at ? "page" : undefined}>{title}</a>
      ))}
    </nav>
  );
}

/** Who wrote something last, and when. */
export function Writer({written}: {readonly written: Written | null | undefined}) {
  if (written == null) {
    return <span class="soft">not known</span>;
  }
  return <span title={new Date(written.at).toISOString()}><Lined text={written.by} />, {moment(written.at)}</span>;
}

/** A heading with what belongs to it. */
export function Section({title, children}: {readonly title: string; readonly children: ComponentChildren}) {
  return <section class="section"><h2>{title}</h2>{children}</section>;
}

/** The name of the view, for the window's title too. */
export function title(text: string): void {
  document.title = `${text} – Maple`;
}

/** The part of the query with this name. */
export function chosen(name: string): string {
  return address.value.query[name] ?? "";
}
