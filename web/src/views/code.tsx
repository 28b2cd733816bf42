// A line of a policy's source, with its words told apart.
import {tokens} from "./source";

/** Shows one line. */
export function Code({text}: {readonly text: string}) {
  return <code>{tokens(text).map((token, at) => (token.kind === "other" ? token.text : <span key={at} class={token.kind}>{token.text}</span>))}</code>;
}
