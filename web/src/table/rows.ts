// What a table shows of its rows: those that are searched for, in the order that is chosen, what is wrong first.
import {natural} from "../text";

/** The value of a row in a column; `null` where that is not known. */
export type Cell = string | number | null;

/** A column, without how it looks. */
export interface Field<Row> {
  /** Its name in the address bar. */
  readonly name: string;
  readonly of: (row: Row) => Cell;
}

/** The text between the parts of a cell that has several. */
export const LISTS = ", ";

/** A word of a search. Spaces belong to it between quotes. */
const WORD = /(?:"[^"]*"?|[^\s"])+/g;

/** The search for rows of which a column is this. */
export function exactly(column: string, value: string): string {
  return /\s/.test(value) ? `${column}="${value}"` : `${column}=${value}`;
}

/** The words of a search: each has to be found in some column, or be what is in the one that stands before its sign. */
export function search<Row>(rows: readonly Row[], fields: readonly Field<Row>[], text: string): readonly Row[] {
  const words = text.toLowerCase().match(WORD) ?? [];
  if (words.length === 0) {
    return rows;
  }
  const named = new Map(fields.map((field) => [field.name.toLowerCase(), field]));
  const tests = words.map((quoted) => {
    const word = quoted.replaceAll('"', "");
    const sign = word.indexOf("=");
    const field = sign > 0 ? named.get(word.slice(0, sign)) : undefined;
    return field === undefined
      ? (row: Row) => fields.some((one) => shown(one.of(row)).includes(word))
      : (row: Row) => isOf(shown(field.of(row)), word.slice(sign + 1));
  });
  return rows.filter((row) => tests.every((test) => test(row)));
}

/** Reports whether a cell is this, or has it as a part. */
function isOf(cell: string, value: string): boolean {
  return cell === value || (cell.includes(LISTS) && cell.split(LISTS).includes(value));
}

function shown(cell: Cell): string {
  return cell === null ? "" : String(cell).toLowerCase();
}

/** Orders rows by a column, `-` in front of its name for the largest first. Without one what is wrong comes first. */
export function order<Row>(
  rows: readonly Row[],
  fields: readonly Field<Row>[],
  sort: string,
  isWrong: (row: Row) => boolean,
): readonly Row[] {
  const down = sort.startsWith("-");
  const field = fields.find(({name}) => name === (down ? sort.slice(1) : sort));
  const by = field ?? fields[0];
  if (by === undefined) {
    return rows;
  }
  const keyed = rows.map((row, at) => ({row, at, key: key(by.of(row)), rank: field === undefined && isWrong(row) ? 0 : 1}));
  keyed.sort((a, b) => a.rank - b.rank || compare(a.key, b.key, down && field !== undefined) || a.at - b.at);
  return keyed.map(({row}) => row);
}

function key(cell: Cell): Cell {
  return typeof cell === "string" ? natural(cell) : cell;
}

/** Compares two cells. What is not known comes last in both directions; numbers come before texts. */
function compare(a: Cell, b: Cell, down: boolean): number {
  if (a === b) {
    return 0;
  }
  if (a === null || b === null) {
    return a === null ? 1 : -1;
  }
  if (typeof a !== typeof b) {
    return typeof a === "number" ? -1 : 1;
  }
  return (a < b ? -1 : 1) * (down ? -1 : 1);
}

/** The sort after a click on a column: the smallest first, the largest first, and as it was. */
export function nextSort(sort: string, name: string, numbers: boolean): string {
  const [first, second] = numbers ? [`-${name}`, name] : [name, `-${name}`];
  return sort === first ? second : sort === second ? "" : first;
}

/** The rows of a long table that are drawn. */
export interface Window {
  readonly first: number;
  readonly end: number;
}

/** The rows to draw where this part of a long table is seen. */
export function windowOf(count: number, top: number, height: number, row: number, spare = 10): Window {
  const first = Math.max(0, Math.min(Math.floor(top / row) - spare, count));
  return {first, end: Math.min(count, Math.ceil((top + height) / row) + spare)};
}
