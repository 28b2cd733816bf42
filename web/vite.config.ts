// Builds the page into dist; `make web` moves it to the crate that embeds it. During work on it, `npx vite` serves it beside a running controller.
import {defineConfig} from "vitest/config";

export default defineConfig({
  base: "./",
  esbuild: {jsx: "automatic", jsxImportSource: "preact"},
  test: {include: ["src/**/*.test.ts"]},
  build: {
    target: "es2022",
    // Inlined files would be refused by the content security policy, except images.
    assetsInlineLimit: 0,
    modulePreload: {polyfill: false},
    reportCompressedSize: false,
  },
  server: {proxy: {"/v1": "http://127.0.0.1:8653", "/metrics": "http://127.0.0.1:8653"}},
});
