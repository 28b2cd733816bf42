// Tests of how numbers, times and source lines read.
import {describe, expect, test} from "vitest";

import {base, fileOf, lineOf, linesIn, moment, natural, parts, scaled, span, took, withLines} from "./text";

test("numbers have three digits at most, and a prefix", () => {
  const all = [0, 7, 999, 1000, 12_345, 999_499, 999_500, 1e9, 3.14159].map((value) => scaled(value, "bit/s"));
  expect(all).toEqual(["0 bit/s", "7 bit/s", "999 bit/s", "1.00 kbit/s", "12.3 kbit/s", "999 kbit/s", "1.00 Mbit/s", "1.00 Gbit/s", "3.14 bit/s"]);
});

test("spans have their largest unit", () => {
  expect([0, 0.00005, 0.0123, 1.9, 119, 120, 7200, 172_800].map(span)).toEqual(["0 s", "50 µs", "12.3 ms", "1 s", "119 s", "2 min", "2 h", "2 d"]);
});

test("what something took is told to three digits", () => {
  expect([0.000_000_8, 0.000_850_4, 0.000_999_6, 0.012_34, 0.25, 1.5, 99, 100, 7300].map(took)).toEqual(
    ["0.80 µs", "850 µs", "1.00 ms", "12.3 ms", "250 ms", "1.50 s", "99 s", "100 s", "2 h"]);
});

test("a moment of another day has its day", () => {
  const now = new Date(2026, 10, 29, 12, 0, 0).getTime();
  expect(moment(new Date(2026, 10, 29, 9, 5, 7).getTime(), now)).toBe("09:05:07");
  expect(moment(new Date(2026, 10, 28, 9, 5, 7).getTime(), now)).toBe("2026-11-28 09:05:07");
});

test("numbers in names are ordered as numbers", () => {
  expect(["s10", "s2", "S1", "h3"].sort((a, b) => (natural(a) < natural(b) ? -1 : 1))).toEqual(["h3", "S1", "s2", "s10"]);
});

describe("source lines", () => {
  test("are found in a text", () => {
    expect(parts("deny: rule no-ssh (/etc/maple/acl.yaml:12), policy.py:3")).toEqual([
      "deny: rule no-ssh (",
      {text: "/etc/maple/acl.yaml:12", file: "/etc/maple/acl.yaml", line: 12},
      "), ",
      {text: "policy.py:3", file: "policy.py", line: 3},
    ]);
  });

  test("are found in tracebacks, and written as elsewhere", () => {
    const text = 'Traceback (most recent call last):\n  File "/etc/maple/acl.py", line 12, in f\nKeyError: 7';
    expect(parts(text).filter((part) => typeof part !== "string")).toEqual([{text: 'File "/etc/maple/acl.py", line 12', file: "/etc/maple/acl.py", line: 12}]);
    expect(withLines(text)).toContain("acl.py:12, in f");
    expect(withLines('File "<string>", line 3, in f: a')).toBe('File "<string>", line 3, in f: a');
  });

  test("may be in folders of any letters", () => {
    for (const file of ["/home/jürgen/netz/acl.py", "/home/ju\u0308rgen/acl.py", "/opt/maple@site/acl.py", "/srv/网络/策略.py", "/srv/a%20b+c~/acl.py"]) {
      expect(parts(`deny (${file}:12), then`)).toEqual(["deny (", {text: `${file}:12`, file, line: 12}, "), then"]);
    }
  });

  test("that are a field of their own may have any letters at all", () => {
    for (const file of ["/srv/net policies/acl.py", "/srv/a: b, c (d)/acl.py", "/srv/x:12/acl.yaml", "acl.py", "/home/jürgen/lists.d/block"]) {
      expect(lineOf(`${file}:12`)).toEqual({before: "", file, line: 12});
    }
    expect(lineOf("guests: /srv/net policies/acl.py:3")).toEqual({before: "guests: ", file: "/srv/net policies/acl.py", line: 3});
    expect(["no source line", "", "10.0.0.1:80", "<string>:3", "acl.py", "c1.example.org:6653"].map(lineOf)).toEqual([null, null, null, null, null, null]);
  });

  test("are named once, whole", () => {
    const text = '  File "/a b/acl.py", line 12, in f\n  File "/a b/acl.py", line 12, in f\nx.py:1: no port';
    expect(linesIn(text)).toEqual(["/a b/acl.py:12", "x.py:1"]);
    expect(linesIn("none at 10.0.0.1:80")).toEqual([]);
  });

  test("of a file with an unusual end have its folder", () => {
    expect(parts("/etc/maple/lists.d/block.lst:7").map((part) => typeof part)).toEqual(["object"]);
  });

  test("are not addresses, places or plain words", () => {
    for (const text of ["tcp 10.0.0.1:40000 > 10.0.0.3:80", "00:00:00:00:00:01 at 1:3", "s1:2", "", "fd00::1", "s1 connects to c1.example.org:6653, not to c2.local:6653"]) {
      expect(parts(text).filter((part) => typeof part !== "string")).toEqual([]);
    }
  });

  test("belong to the file that they name", () => {
    const files = [{file: "/home/a/acl.py"}, {file: "/home/a/lists/acl.yaml"}];
    expect(fileOf(files, "acl.py")).toBe(files[0]);
    expect(fileOf(files, "/home/a/lists/acl.yaml")).toBe(files[1]);
    expect(fileOf(files, "cl.py")).toBeUndefined();
    expect(base("/home/a/acl.py")).toBe("acl.py");
  });
});
