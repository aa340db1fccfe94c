// Runs the other programs, as many at once as are asked for: one process loads each client only once.
// A line in is [number, program, arguments], a line out is [number, result, error].
import { createInterface } from "node:readline";

for await (const line of createInterface({ input: process.stdin })) {
  const [number, program, args] = JSON.parse(line);
  import(`./${program}`)
    .then((module) => module.default(...args))
    .then((result) => [number, result, null], (error) => [number, null, String(error?.stack ?? error)])
    .then((told) => process.stdout.write(`${JSON.stringify(told)}\n`));
}
process.exit(0);
