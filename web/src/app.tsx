// The frame around all views: where to go, whether the controller is there, and who asks.
import {useEffect, useState} from "preact/hooks";

import {address, format} from "./address";
import {connection, signIn, signOut} from "./api/live";
import {useAnswer} from "./api/resource";
import {session} from "./api/session";
import type {ControllerAnswer} from "./api/types";
import {Tabs} from "./parts";
import {base, span} from "./text";
import {ChangeView} from "./views/change";
import {HealthView} from "./views/health";
import {NetworkView} from "./views/network";
import {PolicyView} from "./views/policy";
import {StateView} from "./views/state";
import {SwitchView} from "./views/switch";
import {TimeView} from "./views/time";
import {WhyView} from "./views/why";

const VIEWS = {network: NetworkView, switch: SwitchView, why: WhyView, policy: PolicyView, change: ChangeView, state: StateView, time: TimeView, health: HealthView};
const LISTED = ["network", "why", "policy", "change", "state", "time", "health"] as const;

/** The whole page. */
export function App() {
  useEffect(() => {
    addEventListener("keydown", shortcut);
    return () => removeEventListener("keydown", shortcut);
  }, []);
  const name = address.value.path[0] ?? "network";
  const View = Object.hasOwn(VIEWS, name) ? VIEWS[name as keyof typeof VIEWS] : undefined;
  const here = name === "switch" ? "network" : name;
  return (
    <>
      <header>
        <a class="skip" href="#main" onClick={(event) => {
          event.preventDefault();
          document.getElementById("main")?.focus();
        }}>Skip to the content</a>
        <a class="name" href={format(["network"])}>Maple</a>
        <Tabs kind="views" label="Views" at={here} tabs={LISTED.map((view) => [view, view, format([view])])} />
        <Status />
      </header>
      <Lost />
      <main id="main" tabIndex={-1}>
        {session.value === null ? <SignIn /> : session.value === undefined ? <p class="none">reading …</p> : View === undefined ? <div class="head"><h1>There is no such view</h1></div> : <View key={name} />}
      </main>
    </>
  );
}

/** `/` leads to the search of a view, as in many programs; `g` and a letter to a view. */
let isGoing = false;
function shortcut(event: KeyboardEvent): void {
  const target = event.target as HTMLElement;
  if (event.ctrlKey || event.metaKey || event.altKey || target.matches("input, select, textarea")) {
    return;
  }
  const view = isGoing ? LISTED.find((one) => one.startsWith(event.key)) : undefined;
  isGoing = event.key === "g";
  if (view !== undefined) {
    location.hash = format([view]);
  } else if (event.key === "/") {
    event.preventDefault();
    document.querySelector<HTMLElement>("[data-search]")?.focus();
  }
}

function Status() {
  const {data} = useAnswer<ControllerAnswer>(session.value == null ? null : "/v1/controller", {live: true});
  const own = session.value;
  return (
    <div class="status">
      {data?.policy != null && <a href={format(["policy"])} title={data.policy.name}>{base(data.policy.name)}{data.policy.canary !== null && " (canary)"}</a>}
      <span class={connection.value.live ? "live" : "soft"} role="status">{connection.value.live ? "live" : own === null ? "" : "not live"}</span>
      {own?.name != null && <span class="who">{own.name} ({own.role})</span>}
      {own?.name != null && <button type="button" onClick={() => void signOut()}>Sign out</button>}
    </div>
  );
}

/** Says that what is shown is old. */
function Lost() {
  // How long it was seen so: a page that was hidden for hours has its connection in a moment.
  const [waited, setWaited] = useState(0);
  const isLost = !connection.value.live && session.value !== null;
  useEffect(() => {
    setWaited(0);
    const timer = isLost ? setInterval(() => setWaited((seconds) => (document.hidden ? seconds : seconds + 1)), 1000) : undefined;
    return () => clearInterval(timer);
  }, [isLost]);
  if (!isLost || waited < 2) {
    return null;
  }
  const seconds = (Date.now() - connection.value.since) / 1000;
  return <p class="lost" role="alert">{session.value === undefined ? "The controller does not answer" : "No connection to the controller"} for {span(Math.floor(seconds))}. The page tries again by itself; what it shows is as old as that.</p>;
}

function SignIn() {
  const [token, setToken] = useState("");
  const [problem, setProblem] = useState("");
  const submit = (event: Event) => {
    event.preventDefault();
    signIn(token.trim()).then(() => setToken(""), (error: Error) => setProblem(error.message));
  };
  return (
    <form class="sign-in" onSubmit={submit}>
      <h1>Sign in</h1>
      <p>This controller has tokens: the file of <code>--http-tokens</code> lists them.</p>
      <label>Token <input type="password" autoComplete="current-password" value={token} onInput={(event) => setToken(event.currentTarget.value)} /></label>
      <button type="submit" class="main" disabled={token.trim() === ""}>Sign in</button>
      {problem !== "" && <p class="trouble" role="alert">{problem}</p>}
    </form>
  );
}
