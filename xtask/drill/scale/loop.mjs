// A member whose program loops: it makes calls as fast as it can, whatever the answer is. A process of its own, so that the clients beside
// it need not wait for it. Arguments: the address, the token, and how many calls it makes at once. It ends with its stdin, and then prints
// how many answers of each kind it got.

import { ask } from "./calls.mjs";

const [address, token, atOnce] = process.argv.slice(2);
const endpoint = { address, token };
const answers = { results: 0, refusals: 0 };
let isOver = false;

async function client() {
  while (!isOver) {
    const { text } = await ask(endpoint, "mcp__shared__echo", "arg-0-0-0123456789abcdef");
    if (text.includes("res-")) answers.results += 1;
    else answers.refusals += 1;
  }
}

process.stdin.resume();
process.stdin.on("end", () => (isOver = true));
await Promise.all(Array.from({ length: Number(atOnce) }, client));
console.log(JSON.stringify(answers));
process.exit(0);
