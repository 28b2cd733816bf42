// The map with what is chosen on it.
import {useMemo} from "preact/hooks";

import {choose, format} from "../address";
import {SOON, useAnswer} from "../api/resource";
import type {MapAnswer} from "../api/types";
import {only, within} from "../map/graph";
import {NetworkMap} from "../map/map";
import {short, useNames} from "../names";
import {chosen, Trouble} from "../parts";
import {exactly} from "../table/rows";
import {bits, whole} from "../text";

/** The time between two questions to the switches for the counters of their ports, in milliseconds. */
export const COUNTED = 10_000;

/** Shows the network, or the part of it around a switch. */
export function MapView() {
  const {data, problem} = useAnswer<MapAnswer>("/v1/map", {live: true, every: SOON});
  // The load of links is in counters that the controller has only if somebody asks the switches for them.
  useAnswer("/v1/ports?limit=1", {every: COUNTED});
  const names = useNames();
  const [at, hops] = [chosen("at"), chosen("hops")];
  const id = data?.switches.find((one) => one.switch === at || one.name === at || short(one.switch) === at)?.switch ?? null;
  const shown = useMemo(() => {
    if (data === undefined) {
      return {switches: [], links: []};
    }
    return id === null || hops === "" ? data : only(data, within(data.links, id, Number(hops)));
  }, [data, id, hops]);
  const own = data?.switches.find((one) => one.switch === id);
  return (
    <>
      <div class="bar">
        <label>within <select value={hops} onChange={(event) => choose({hops: event.currentTarget.value})}>
          <option value="">any number of</option>
          {["1", "2", "3", "4", "6"].map((count) => <option key={count} value={count}>{count}</option>)}
        </select> hops of</label>
        <input type="search" list="switches" aria-label="Switch" placeholder="a switch" value={at}
          onInput={(event) => choose({at: event.currentTarget.value})} />
        <datalist id="switches">{data?.switches.slice(0, 500).map((one) => <option key={one.switch} value={names.switch(one.switch)} />)}</datalist>
        {at !== "" && id === null && data !== undefined && <span class="wrong">no such switch</span>}
        <span class="count" role="status">
          {data === undefined ? "reading …" : `${whole(shown.switches.length)} switches, ${whole(shown.links.length)} links`}
        </span>
      </div>
      <Trouble problem={problem} />
      <div class="map-and-side">
        <NetworkMap network={shown} chosen={id} fitted={`${hops === "" ? "" : id} ${hops}`}
          onChoose={(one) => choose({at: one === null ? undefined : names.switch(one)})} />
        {own !== undefined && data !== undefined && (
          <aside class="side" aria-label="The chosen switch">
            <h2><a href={format(["switch", own.switch])}>{names.switch(own.switch)}</a></h2>
            <p>{own.connected ? "connected" : <span class="wrong">not connected</span>}, <a href={format(["network", "hosts"], {q: exactly("switch", names.switch(own.switch))})}>{whole(own.hosts)} {own.hosts === 1 ? "host" : "hosts"}</a></p>
            <table class="plain">
              <caption class="unseen">Links of the switch</caption>
              <thead><tr><th scope="col">port</th><th scope="col">leads to</th><th scope="col" class="number">rate</th></tr></thead>
              <tbody>
                {data.links.filter(({from, to}) => from.switch === own.switch || to.switch === own.switch).map((link) => {
                  const [here, there] = link.from.switch === own.switch ? [link.from, link.to] : [link.to, link.from];
                  return (
                    <tr key={`${here.port}`} class={link.up ? "" : "wrong"}>
                      <td>{here.port}</td>
                      <td><a href={format(["network", "map"], {at: names.switch(there.switch), hops})}>{names.place(there)}</a></td>
                      <td class="number">{link.up ? bits(link.bits_per_second) : "down"}</td>
                    </tr>
                  );
                })}
              </tbody>
            </table>
          </aside>
        )}
      </div>
    </>
  );
}
