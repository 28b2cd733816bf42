// What the page weighs, and that it is made of nothing from elsewhere.
import assert from "node:assert/strict";
import {readdir, readFile} from "node:fs/promises";
import path from "node:path";
import {test} from "node:test";
import {fileURLToPath} from "node:url";
import {gzipSync} from "node:zlib";

const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..");

test("the page has at most 150 kB, compressed, and asks nobody else for anything", async () => {
  const dist = path.join(ROOT, "crates/maple-controller/page/dist");
  const names = await readdir(dist, {recursive: true, withFileTypes: true});
  const files = await Promise.all(names.filter((one) => one.isFile()).map(async (one) => [one.name, await readFile(path.join(one.parentPath ?? one.path, one.name))]));
  assert.ok(files.some(([name]) => name === "index.html"));
  const size = files.reduce((sum, [, bytes]) => sum + gzipSync(bytes).length, 0);
  assert.ok(size <= 150_000, `${size} bytes`);
  for (const [name, bytes] of files) {
    // Names of XML's forms are no addresses that anybody asks.
    const addresses = [...bytes.toString().matchAll(/https?:\/\/[\w.-]+/g)].map(([text]) => text).filter((text) => text !== "http://www.w3.org");
    assert.deepEqual(addresses, [], name);
  }
});

test("the lists of packages name versions and checksums, and no host of a registry", async () => {
  for (const folder of ["web", "tests/browser"]) {
    const read = async (name) => JSON.parse(await readFile(path.join(ROOT, folder, name), "utf8"));
    const [{dependencies = {}, devDependencies = {}}, {packages}] = [await read("package.json"), await read("package-lock.json")];
    for (const [name, version] of Object.entries({...dependencies, ...devDependencies})) {
      assert.match(version, /^\d+\.\d+\.\d+$/, name);
    }
    for (const [name, one] of Object.entries(packages).filter(([name]) => name !== "")) {
      assert.ok(one.integrity?.startsWith("sha512-"), name);
      assert.equal(one.resolved, undefined, name);
    }
  }
});
