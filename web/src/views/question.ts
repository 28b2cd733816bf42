// What the address asks about a packet, as the API takes it.

/** The body of `POST /v1/explain`; `null` if nothing is asked, an error if it can't be. */
export function question(query: Readonly<Record<string, string>>): object | null | Error {
  const {from = "", to = "", at = "", fields = "", rule = "", switch: id = ""} = query;
  if (rule !== "") {
    return {rule: {cookie: rule, ...(id === "" ? {} : {switch: id})}};
  }
  if (from === "" && to === "" && at === "" && fields === "") {
    return null;
  }
  const given: [string, string][] = [];
  for (const word of fields.split(/[\s,]+/).filter((one) => one !== "")) {
    const equals = word.indexOf("=");
    if (equals <= 0 || equals === word.length - 1) {
      return new Error(`fields: ${word} is not a field with its value, such as tcp_dst=80`);
    }
    given.push([word.slice(0, equals), word.slice(equals + 1)]);
  }
  const parts = Object.entries({from, to, at}).filter(([, value]) => value !== "");
  return {packet: {...Object.fromEntries(parts), ...(given.length > 0 ? {fields: Object.fromEntries(given)} : {})}};
}
