"""How the page looks, in light and in dark."""

from typing import Final

STYLE: Final = """
:root { color-scheme: light dark; --ink: #1d2330; --soft: #5d6679; --line: #dfe3ea; --paper: #fff;
  --wash: #f6f7f9; --pass: #1a7f4b; --fail: #c2293b; --skip: #9a6b00; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ef; --soft: #9aa4b8; --line: #333b4a;
  --paper: #14181f; --wash: #1b212b; --pass: #52c98b; --fail: #ff7382; --skip: #e0b04b; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 64rem; padding: 2rem 1.25rem 4rem; background: var(--paper);
  color: var(--ink); font: 16px/1.55 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: .2rem 0; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 2rem 0 .75rem; }
h3 { font-size: 1rem; margin: 0; }
h4 { margin: .75rem 0 .25rem; color: var(--soft); font-size: .8rem; font-weight: 600; }
p { margin: .25rem 0; }
header p, .from, .why, footer, small { color: var(--soft); font-size: .875rem; }
code, pre, time { font-family: ui-monospace, SFMono-Regular, Menlo, monospace; font-size: .84em; }
pre { margin: 0; padding: .75rem; background: var(--wash); border-radius: 6px; white-space: pre-wrap;
  overflow-wrap: anywhere; max-height: 20rem; overflow: auto; }
.verdict { font-weight: 700; }
.pass { color: var(--pass); } .fail { color: var(--fail); } .skip { color: var(--skip); }
.levels { display: grid; grid-template-columns: repeat(auto-fit, minmax(14rem, 1fr)); gap: 1.5rem;
  margin-top: 1.5rem; }
.levels h2 { margin: 0 0 .5rem; }
.bar { display: flex; gap: 2px; height: .6rem; border-radius: 4px; overflow: hidden; }
.bar i { background: currentColor; min-width: 3px; }
article { border: 1px solid var(--line); border-left: 4px solid var(--fail); border-radius: 8px;
  padding: 1rem 1.25rem; margin: 0 0 1rem; }
.reason { color: var(--fail); font-weight: 600; }
.level { border: 1px solid var(--line); border-radius: 4px; padding: 0 .4em; font-weight: 600; }
details { margin: .5rem 0; }
summary { cursor: pointer; padding: .25rem 0; overflow-wrap: anywhere; }
section > details > summary { font-weight: 600; border-bottom: 1px solid var(--line); }
table { border-collapse: collapse; width: 100%; }
td { padding: .4rem .6rem .4rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td:nth-child(2) { overflow-wrap: anywhere; min-width: 10rem; }
td:last-child { width: 60%; }
.checklist { padding-left: 1.5rem; columns: 2 22rem; }
.timeline { list-style: none; margin: .5rem 0 0; padding: 0; border-left: 2px solid var(--line); }
.timeline li { position: relative; padding: .12rem 0 .12rem 1rem; font-size: .9rem; }
.timeline li::before { content: ""; position: absolute; left: -6px; top: .6rem; width: 10px; height: 10px;
  border-radius: 50%; background: var(--line); }
.timeline li.end::before { background: var(--soft); }
.timeline li.wrong { background: color-mix(in srgb, var(--fail) 9%, transparent); }
.timeline li.wrong::before { background: var(--fail); }
.timeline code { margin-left: calc(var(--depth, 0) * 1.4rem); }
.timeline time { display: inline-block; width: 5.2rem; color: var(--soft); }
.timeline span { color: var(--soft); overflow-wrap: anywhere; }
a { color: inherit; }
footer { margin-top: 3rem; border-top: 1px solid var(--line); padding-top: 1rem; }
"""
