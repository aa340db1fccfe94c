import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, gzipSync } from "node:zlib";
import tailwind from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { defineConfig, type Plugin } from "vite";

const OUT = "../antiphon/server/web";

/** Packs what is built, so that the gateway never has to. */
function packed(): Plugin {
  return {
    name: "packed",
    apply: "build",
    closeBundle() {
      for (const name of readdirSync(OUT, { recursive: true, encoding: "utf8" })) {
        const path = join(OUT, name);
        if (!/\.(js|css|html|svg)$/.test(name) || statSync(path).size < 1000) continue;
        const plain = readFileSync(path);
        writeFileSync(`${path}.gz`, gzipSync(plain, { level: 9 }));
        writeFileSync(`${path}.br`, brotliCompressSync(plain));
      }
    },
  };
}

export default defineConfig({
  plugins: [react(), tailwind(), packed()],
  build: {
    outDir: OUT,
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: "es2023",
    reportCompressedSize: false,
  },
  server: { proxy: { "/v1": "http://127.0.0.1:8080", "/api": "http://127.0.0.1:8080" } },
});
