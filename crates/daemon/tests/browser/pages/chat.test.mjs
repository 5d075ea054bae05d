// A conversation with a model that reads its answers from a file, anew for each turn.

import assert from "node:assert/strict";
import { renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { HOSTILE } from "../workshop.mjs";
import { leave, staged } from "../stage.mjs";

const both = staged({ words: ["--model", "mock/answers.json", "--yes-read-only"] });
const silent = staged({ empty: true });

/** Writes the answers of the model for the next turn. @param {object[]} answers */
const script = (...answers) => {
  // In one step, because the daemon may be reading the file.
  const path = join(both.stage.project, "answers.json");
  writeFileSync(`${path}.new`, JSON.stringify(answers));
  renameSync(`${path}.new`, path);
};

const calls = (name, input = {}) => ({ tool_calls: [{ name: `mcp__workshop__${name}`, input }] });

/** Opens the chat with an empty conversation. */
async function chat(place = "#/chat", options = {}) {
  script({ text: "Hello." });
  const page = await both.visitor.open(both.stage, place, options);
  await page.getByTestId("message").waitFor();
  return page;
}

async function say(page, text) {
  await page.getByTestId("message").fill(text);
  await page.getByTestId("message").press("Enter");
}

/** Returns the last turn, once it has ended. */
async function over(page, state = "over") {
  const turn = page.getByTestId("turn").last();
  await turn.and(page.locator(`[data-status="${state}"]`)).waitFor();
  await page.getByTestId("send").waitFor();
  return turn;
}

test("without_a_model_the_page_says_what_to_do", async () => {
  const page = await silent.visitor.open(silent.stage, "#/");
  await page.getByTestId("nav-chat").click();
  const place = page.getByTestId("no-model");
  await place.getByText("No model answers yet").waitFor();
  const { body } = await silent.stage.api("/api/v1/model");
  assert.ok(body.error.hint, "there is a next step");
  const shown = await place.locator(".hint").innerText();
  assert.equal(shown, body.error.hint.replaceAll("`", ""));
  assert.equal(await page.getByTestId("composer").count(), 0);
  await leave(page);
});

test("a_question_is_answered_with_a_call_and_kept", async () => {
  const page = await chat();
  await page.getByTestId("model").getByText("answers").waitFor();
  script(
    { text: "I **look**.", ...calls("echo", { text: "hello" }) },
    { text: "It said:\n\n- hello\n\n```sh\necho hello\n```", usage: { input: 1200, output: 34 } },
  );
  const box = page.getByTestId("message");
  await box.fill("What does");
  await box.press("Shift+Enter");
  await box.pressSequentially("it say?");
  await box.press("Enter");
  const turn = await over(page);
  assert.equal(await box.inputValue(), "");
  assert.equal(await turn.getByTestId("asked").innerText(), "What does\nit say?");
  await turn.locator("strong").getByText("look").waitFor();
  const made = turn.locator('[data-testid="call"][data-status="ok"]');
  assert.match(await made.locator("summary").innerText(), /^workshop\/echo ok \d/);
  assert.equal(await made.getByTestId("call-result").isVisible(), false, "folded at first");
  await made.locator("summary").click();
  assert.match(await made.getByTestId("call-arguments").innerText(), /"text": "hello"/);
  await made.getByRole("group", { name: "Data of workshop" }).getByText("hello").waitFor();
  assert.equal(await turn.locator("li").innerText(), "hello");
  assert.equal(await turn.getByTestId("code").innerText(), "echo hello");
  assert.match(await turn.getByTestId("spent").innerText(), /2 rounds · 1\.2k tokens in, 34 out/);
  await page.waitForURL(/#\/chat\/[\w-]+$/);

  await page.reload();
  await page.getByTestId("call").locator("summary").getByText("ok").waitFor();
  await page.locator("li").getByText("hello").waitFor();
  script({ text: "Yes." });
  await say(page, "Sure?");
  await (await over(page)).getByText("Yes.").waitFor();
  assert.equal(await page.getByTestId("turn").count(), 2);

  const id = page.url().split("/").at(-1);
  const { body } = await both.stage.api(`/api/v1/sessions/${id}`);
  assert.deepEqual(
    body.messages.map(({ role }) => role),
    ["user", "assistant", "tool", "assistant", "user", "assistant"],
  );
  await leave(page);
});

test("a_kept_conversation_is_gone_on_with_from_its_page", async () => {
  const page = await chat();
  await say(page, "Remember this.");
  await over(page);
  await page.getByTestId("as-session").click();
  await page.getByTestId("go-on").click();
  await page.getByTestId("asked").getByText("Remember this.").waitFor();
  await page.getByTestId("new").click();
  await page.getByTestId("beginning").waitFor();
  assert.match(page.url(), /#\/chat$/);
  await page.goBack();
  await page.getByTestId("asked").getByText("Remember this.").waitFor();
  await leave(page);
});

test("what_needs_an_approval_is_asked_where_the_conversation_is", async () => {
  const page = await chat();
  script(calls("erase", { path: "a.txt" }), { text: "It is gone." });
  await say(page, "Erase a.txt");
  const question = page.getByTestId("question");
  assert.match(await question.getByTestId("arguments").innerText(), /a\.txt/);
  await page.locator('[data-testid="call"][data-status="running"]').waitFor();
  await question.getByTestId("once").click();
  await (await over(page)).getByText("It is gone.").waitFor();
  await page.locator('[data-testid="call"][data-status="ok"]').waitFor();
  await question.waitFor({ state: "detached" });

  script(calls("erase", { path: "b.txt" }), { text: "I may not." });
  await say(page, "Erase b.txt");
  await question.getByTestId("deny").click();
  await question.getByTestId("deny-send").click();
  await (await over(page)).locator('[data-testid="call"][data-status="failed"]').waitFor();
  await leave(page);
});

test("a_form_of_a_server_is_filled_in_where_the_conversation_is", async () => {
  const page = await chat();
  script(calls("ask"), { text: "You are known now." });
  await say(page, "Who am I?");
  await page.getByLabel("Your name").fill("Ada");
  await page.getByTestId("accept").click();
  const turn = await over(page);
  await turn.getByTestId("call").locator("summary").click();
  await turn.getByTestId("call-result").getByText("Hello, Ada!").waitFor();
  await leave(page);
});

test("an_answer_is_stopped", async () => {
  const page = await chat();
  script({ text: "I begin.", ...calls("slow", { steps: 1000 }) }, { text: "never" });
  await say(page, "Take your time");
  await page.locator('[data-testid="call"][data-status="running"]').waitFor();
  await page.getByTestId("stop").click();
  const turn = await over(page);
  await turn.locator('[data-testid="ended"][data-status="cancelled"]').waitFor();
  await turn.getByText("I begin.").waitFor();
  assert.equal(await page.getByText("never").count(), 0);
  assert.equal(await turn.locator('[data-testid="call"][data-status="running"]').count(), 0);
  script({ text: "Back again." });
  await say(page, "And now?");
  await (await over(page)).getByText("Back again.").waitFor();
  await leave(page);
});

test("what_failed_is_asked_again_with_the_same_words", async () => {
  const page = await chat();
  script();
  await say(page, "Can you hear me?");
  const failed = await over(page, "failed");
  await failed.getByTestId("trouble").waitFor();
  assert.equal(await failed.getByTestId("asked").innerText(), "Can you hear me?");
  script({ text: "Now I can." });
  await failed.getByRole("button", { name: "Try again" }).click();
  await (await over(page)).getByText("Now I can.").waitFor();
  assert.deepEqual(await page.getByTestId("asked").allInnerTexts(), ["Can you hear me?"]);
  await page.waitForURL(/#\/chat\/[\w-]+$/);
  const id = page.url().split("/").at(-1);
  const { body } = await both.stage.api(`/api/v1/sessions/${id}`);
  assert.deepEqual(
    body.messages.map(({ role }) => role),
    ["user", "assistant"],
    "and kept once",
  );
  await leave(page);
});

test("what_fails_after_a_call_is_gone_on_with_and_the_call_is_not_made_twice", async () => {
  const page = await chat();
  script(calls("echo", { text: "once" }));
  await say(page, "Echo once");
  const failed = await over(page, "failed");
  await failed.locator('[data-testid="call"][data-status="ok"]').waitFor();
  script({ text: "It was said." });
  await failed.getByRole("button", { name: "Try again" }).click();
  await (await over(page)).getByText("It was said.").waitFor();
  assert.equal(await page.getByTestId("call").count(), 1);
  assert.deepEqual(await page.getByTestId("asked").allInnerTexts(), ["Echo once"]);
  await leave(page);
});

test("what_the_daemon_says_late_of_an_earlier_turn_is_not_said_of_the_last", async () => {
  const page = await chat();
  const asked = Promise.withResolvers();
  await page.route("**/api/v1/sessions/*?limit=1", async (route) => {
    await asked.promise;
    await route.fulfill({ json: { session: { open_turn: true }, messages: [], next: null } });
  }, { times: 1 });
  script(calls("echo", { text: "first" }));
  await say(page, "First");
  await over(page, "failed");
  script({ text: "It is fine." });
  await say(page, "Second");
  await (await over(page)).getByText("It is fine.").waitFor();
  const late = page.waitForResponse(/\/sessions\/[^/]+\?limit=1$/);
  asked.resolve(null);
  await (await late).finished();
  await page.evaluate(() => new Promise(requestAnimationFrame));
  assert.equal(await page.getByTestId("interrupted").count(), 0);
  await leave(page);
});

test("an_answer_goes_on_while_the_user_looks_elsewhere", async () => {
  const page = await chat();
  script(calls("slow", { steps: 8 }), { text: "Done at last." });
  await say(page, "Work");
  await page.locator('[data-testid="call"][data-status="running"]').waitFor();
  await page.getByTestId("message").fill("next");
  await page.getByTestId("nav-tools").click();
  await page.getByTestId("tool").first().waitFor();
  await page.getByTestId("nav-chat").click();
  await (await over(page)).getByText("Done at last.").waitFor();
  assert.equal(await page.getByTestId("message").inputValue(), "next", "and so does what was begun");
  await leave(page);
});

test("nothing_that_a_model_or_a_server_says_becomes_a_part_of_the_page", async () => {
  const page = await chat();
  script({ text: HOSTILE, ...calls("hostile") }, { text: `${HOSTILE}\n\n[good](https://example.com/)` });
  await say(page, HOSTILE);
  const turn = await over(page);
  await turn.getByTestId("call").locator("summary").click();
  assert.ok((await turn.getByTestId("call-result").innerText()).includes(HOSTILE));
  assert.equal(await turn.getByTestId("asked").innerText(), HOSTILE);
  assert.doesNotMatch(await page.title(), /owned/);
  assert.equal(await page.locator("main img, main script").count(), 0);
  const links = await turn.locator(".markdown a").evaluateAll((all) => all.map(({ href, rel }) => ({ href, rel })));
  assert.deepEqual(links, [{ href: "https://example.com/", rel: "noopener noreferrer" }]);
  await leave(page);
});

/** Waits until the page has scrolled to its end. @param {any} page */
const atEnd = (page) =>
  page.waitForFunction(() => {
    const { scrollHeight, clientHeight, scrollTop } = document.documentElement;
    return scrollHeight - clientHeight - scrollTop < 4;
  });

/** Waits until the page does not scroll any more: the browser moves it over several frames. @param {any} page */
const atRest = (page) =>
  page.evaluate(async () => {
    for (let [last, frames] = [-1, 0]; frames < 10; ) {
      await new Promise(requestAnimationFrame);
      frames = scrollY === last ? frames + 1 : 0;
      last = scrollY;
    }
  });

test("the_page_follows_the_answer_unless_the_reader_scrolled_up", async () => {
  const page = await chat();
  const long = Array.from({ length: 60 }, (_, line) => `Paragraph ${line}.`).join("\n\n");
  script({ text: long, ...calls("slow", { steps: 6 }) }, { text: `${long}\n\nThe end.` });
  await say(page, "Tell me much");
  await page.locator('[data-testid="call"][data-status="running"]').waitFor();
  await page.waitForFunction(() => scrollY > 500);
  await atEnd(page);
  await page.mouse.move(600, 300);
  await page.mouse.wheel(0, -900);
  await page.getByTestId("to-end").waitFor();
  await atRest(page);
  const was = await page.evaluate(() => scrollY);
  await over(page);
  await page.getByText("The end.").waitFor();
  assert.equal(await page.evaluate(() => scrollY), was, "it stays where the reader is");
  await page.getByTestId("to-end").click();
  await page.getByTestId("to-end").waitFor({ state: "detached" });
  await atEnd(page);
  await leave(page);
});

test("screen_readers_hear_what_is_whole", async () => {
  const page = await chat();
  const heard = page.getByRole("log", { name: "Conversation" });
  assert.equal(await heard.getAttribute("aria-live"), "polite");
  // Text that is still arriving is outside of the region that screen readers read out.
  await page.evaluate(() => {
    globalThis.half = 0;
    new MutationObserver(() => {
      globalThis.half += document.querySelectorAll('[role="log"] [data-testid="writing"]').length;
    }).observe(document.body, { childList: true, subtree: true });
  });
  await say(page, "Hello?");
  await over(page);
  await heard.getByText("Hello.").waitFor();
  assert.equal(await page.evaluate(() => globalThis.half), 0);
  assert.equal(await page.evaluate(() => document.activeElement?.getAttribute("data-testid")), "message");
  await leave(page);
});

test("who_answers_and_with_which_tools_is_chosen_and_remembered_for_the_conversation", async () => {
  const page = await chat();
  const second = join(both.stage.project, "second.json");
  const reaches = calls("echo", { text: "hello" }).tool_calls[0];
  const beyond = calls("shapes", {}).tool_calls[0];
  writeFileSync(second, JSON.stringify([{ tool_calls: [reaches, beyond] }, { text: "The second speaks." }]));
  await page.getByTestId("choose").click();
  await page.getByTestId("choose-model").selectOption({ label: "Another one…" });
  await page.getByTestId("model-name").fill("mock/second.json");
  await page.getByTestId("all-servers").uncheck();
  const server = (name) => page.locator(`[data-testid="choose-server"][data-name="${name}"]`);
  assert.equal(await server("builtin").isChecked(), false);
  await server("workshop").check();
  await page.getByTestId("choose-tools").fill("*/echo, nobody/*");
  assert.equal(await page.getByTestId("model").innerText(), "mock/second.json answers");
  assert.match(await page.getByTestId("with-tools").innerText(), /like \*\/echo, nobody\/\* of 1 server$/);
  await page.getByTestId("choose").click();
  await page.getByTestId("choices").waitFor({ state: "detached" });

  const sent = page.waitForRequest((request) => request.url().endsWith("/api/v1/turns"));
  await say(page, "Who are you?");
  const { model, servers, tools } = (await sent).postDataJSON();
  assert.deepEqual(
    { model, servers, tools },
    { model: "mock/second.json", servers: ["workshop"], tools: ["*/echo", "nobody/*"] },
  );
  const turn = await over(page);
  await turn.getByText("The second speaks.").waitFor();
  assert.equal(await turn.locator('[data-testid="call"][data-status="ok"]').count(), 1);
  const refused = turn.getByTestId("call").filter({ hasText: "shapes" });
  assert.notEqual(await refused.getAttribute("data-status"), "ok", "a tool that was not chosen is called");

  await page.waitForURL(/#\/chat\/.+/);
  const conversation = page.url();
  await page.getByTestId("new").click();
  await page.getByTestId("model").getByText("mock/script").waitFor();
  await page.getByTestId("with-tools").getByText(/^\d+ tools$/).waitFor();
  await page.goto(conversation);
  await page.reload();
  await page.getByTestId("model").getByText("mock/second.json").waitFor();
  await page.getByTestId("choose").click();
  assert.equal(await page.getByTestId("choose-tools").inputValue(), "*/echo, nobody/*");
  assert.deepEqual([await server("workshop").isChecked(), await server("builtin").isChecked()], [true, false]);
  await leave(page);
});

test("where_no_model_is_configured_one_can_be_named", async () => {
  const page = await silent.visitor.open(silent.stage, "#/chat");
  await page.getByTestId("no-model").waitFor();
  writeFileSync(join(silent.stage.project, "named.json"), JSON.stringify([{ text: "Here I am." }]));
  await page.getByTestId("choose").click();
  await page.getByTestId("choose-model").selectOption({ label: "Another one…" });
  await page.getByTestId("model-name").fill("mock/named.json");
  await page.getByTestId("no-model").waitFor({ state: "detached" });
  await say(page, "Is anybody there?");
  await (await over(page)).getByText("Here I am.").waitFor();
  await leave(page);
});
