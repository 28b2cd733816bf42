// The names of switches and hosts, in the place of ids where there are some.
import {useAnswer} from "./api/resource";
import type {NamesAnswer, Place} from "./api/types";

/** Names by id, and the other way round. */
export class Names {
  private readonly switches: ReadonlyMap<string, string>;
  private readonly hosts: ReadonlyMap<string, string>;
  private readonly ids: ReadonlyMap<string, string>;

  constructor({switches, hosts}: NamesAnswer) {
    this.switches = new Map(switches.map((one) => [one.switch, one.name]));
    this.hosts = new Map(hosts.map((one) => [one.mac, one.name]));
    this.ids = new Map([...switches.map((one) => [one.name, one.switch] as const), ...hosts.map((one) => [one.name, one.mac] as const)]);
  }

  /** A switch's name; without one its id without zeros in front. */
  switch(id: string): string {
    return this.switches.get(id) ?? short(id);
  }

  host(mac: string): string {
    return this.hosts.get(mac) ?? mac;
  }

  /** Reports whether a host has a name besides its address. */
  hasHost(mac: string): boolean {
    return this.hosts.has(mac);
  }

  place(at: Place): string {
    return `${this.switch(at.switch)}:${at.port}`;
  }

  /** A text with names in the place of the ids that it has; ids of switches without one have no zeros in front. */
  inText(text: string): string {
    return text.replace(IDS, (id) => (id.includes(":") ? this.host(id) : this.switch(id)));
  }

  /** A route with names in the place of ids, which stand there without zeros in front: `by 1:4, 11:2`. */
  inRoute(text: string): string {
    return this.inText(text).replace(PLACES, (place, id: string, port: string) => {
      const name = this.switches.get(id.padStart(16, "0"));
      return name === undefined ? place : `${name}:${port}`;
    });
  }

  /** The id that a reader's word stands for. */
  id(word: string): string {
    return this.ids.get(word) ?? word;
  }

  /** All names of hosts, to choose from. */
  hostNames(): Iterable<string> {
    return this.hosts.values();
  }
}

/** Datapath ids and hardware addresses. */
const IDS = /\b(?:[0-9a-f]{16}|[0-9a-f]{2}(?::[0-9a-f]{2}){5})\b/g;

/** Datapath ids without zeros in front, with ports. */
const PLACES = /(?<![\w:.-])([0-9a-f]{1,16}):(\d+)(?![\w:.])/g;

/** A datapath id without the zeros in front. */
export function short(id: string): string {
  return id.replace(/^0+(?=.)/, "");
}

const NONE: NamesAnswer = {switches: [], hosts: []};

/** The names that were made of the latest answers: all parts of the page share them. */
const made = new WeakMap<NamesAnswer, Names>();

/** The names as they are now. */
export function useNames(): Names {
  const {data = NONE} = useAnswer<NamesAnswer>("/v1/names", {live: true});
  const known = made.get(data) ?? new Names(data);
  made.set(data, known);
  return known;
}
