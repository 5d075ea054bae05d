import assert from "node:assert/strict";
import { test } from "node:test";
import { leave, staged } from "../stage.mjs";

const both = staged();

/** A program that calls a tool, and waits for what becomes of it. */
const calls = (tool, given = {}) => both.stage.api("/api/v1/calls", { tool: `workshop/${tool}`, arguments: given });
const question = (page) => page.getByTestId("question");

test("a_call_waits_for_a_word_and_the_title_counts_it", async () => {
  const page = await both.visitor.open(both.stage, "#/approvals");
  await page.getByTestId("empty").getByText("Nothing waits for you").waitFor();
  const call = calls("erase", { path: "a.txt" });
  await question(page).getByText("destructive").waitFor();
  await page.waitForFunction(() => document.title.startsWith("(1) "));
  assert.match(await page.getByTestId("nav-count-approvals").innerText(), /^1/);
  assert.deepEqual(JSON.parse(await page.getByTestId("arguments").innerText()), { path: "a.txt" });
  await page.getByTestId("once").click();
  assert.equal((await call).body.text, "erased a.txt");
  await page.getByTestId("empty").waitFor();
  await page.waitForFunction(() => !document.title.startsWith("("));
  await leave(page);
});

test("what_was_asked_before_the_page_was_opened_is_there", async () => {
  const call = calls("erase", { path: "b.txt" });
  const page = await both.visitor.open(both.stage, "#/approvals");
  await page.getByTestId("once").click();
  assert.equal((await call).status, 200);
  await leave(page);
});

test("a_call_runs_with_the_arguments_as_they_were_changed", async () => {
  const page = await both.visitor.open(both.stage, "#/approvals");
  const call = calls("erase", { path: "a.txt" });
  await page.getByTestId("edit-arguments").click();
  await page.getByTestId("arguments-edit").fill("{");
  await page.getByTestId("once").click();
  await question(page).getByText("the arguments are not JSON").waitFor();
  await page.getByTestId("arguments-edit").fill('{"path": "other.txt"}');
  await page.getByTestId("once").click();
  assert.equal((await call).body.text, "erased other.txt");
  await leave(page);
});

test("a_number_of_any_length_is_shown_and_sent_as_it_is", async () => {
  const { stage, visitor } = both;
  const page = await visitor.open(stage, "#/approvals");
  const long = "9007199254740993";
  const ask = () =>
    fetch(`http://${stage.host}/api/v1/calls`, {
      method: "POST",
      headers: { authorization: `Bearer ${stage.token}`, "content-type": "application/json" },
      body: `{"tool":"workshop/erase","arguments":{"path":"n.txt","id":${long}}}`,
    });
  const answers = [];
  page.on("request", (request) => request.method() === "POST" && answers.push(request.postData()));
  for (const path of ["n.txt", "m.txt"]) {
    const call = ask();
    await question(page).getByText(long).waitFor();
    await page.getByTestId("edit-arguments").click();
    const edit = page.getByTestId("arguments-edit");
    await edit.fill((await edit.inputValue()).replace("n.txt", path));
    await page.getByTestId("once").click();
    assert.equal((await call).status, 200);
    await question(page).waitFor({ state: "detached" });
  }
  assert.deepEqual(answers, ['{"answer":"once"}', `{"answer":"once","arguments":{"id":${long},"path":"m.txt"}}`]);
  await leave(page);
});

test("a_call_is_denied_with_a_reason", async () => {
  const page = await both.visitor.open(both.stage, "#/approvals");
  const call = calls("erase", { path: "a.txt" });
  await page.getByTestId("deny").click();
  await page.getByTestId("deny-reason").fill("not on a Sunday");
  await page.getByTestId("deny-send").click();
  const { status, body } = await call;
  assert.equal(status, 403);
  assert.match(JSON.stringify(body), /not on a Sunday/);
  await leave(page);
});

test("a_question_goes_when_the_call_goes", async () => {
  const page = await both.visitor.open(both.stage, "#/approvals");
  const over = new AbortController();
  const call = both.stage
    .api("/api/v1/calls", { tool: "workshop/erase", arguments: { path: "a" } }, over.signal)
    .catch(() => {});
  await question(page).waitFor();
  over.abort();
  await call;
  await question(page).waitFor({ state: "detached" });
  await leave(page);
});

test("a_click_that_was_meant_for_a_question_never_answers_the_next", async () => {
  const page = await both.visitor.open(both.stage, "#/approvals");
  // From here on time stands still, but for what is told: a click comes exactly between two of its moments.
  await page.clock.install();
  await page.clock.pauseAt(Date.now() + 60_000);
  const over = new AbortController();
  const gone = both.stage
    .api("/api/v1/calls", { tool: "workshop/erase", arguments: { path: "first" } }, over.signal)
    .catch(() => {});
  await question(page).getByText("first").waitFor();
  const call = calls("erase", { path: "second" });
  const [first, second] = [question(page).filter({ hasText: "first" }), question(page).filter({ hasText: "second" })];
  await second.waitFor();
  await page.clock.runFor(600);
  const { x, y, width, height } = await first.getByTestId("once").boundingBox();
  const click = () => page.mouse.click(x + width / 2, y + height / 2);
  const waiting = async () => (await both.stage.api("/api/v1/approvals")).body.approvals.length;

  over.abort();
  await gone;
  await page.getByTestId("question-over").waitFor();
  await click();
  await page.clock.runFor(3_900);
  await click();
  assert.equal(await page.getByTestId("question-over").count(), 1, "it keeps its place");
  await page.clock.runFor(200);
  await page.getByTestId("question-over").waitFor({ state: "detached" });
  const slid = await second.getByTestId("once").boundingBox();
  assert.ok(Math.abs(slid.y - y) < height / 2, "the second is where the first was");
  await click();
  assert.equal(await waiting(), 1, "nobody has answered the second");
  await page.clock.runFor(600);
  await click();
  assert.equal((await call).body.text, "erased second");
  await leave(page);
});

for (const [how, minutes] of Object.entries({ behind: -5, ahead: 5 }))
  test(`a_question_appears_though_the_clock_of_the_browser_is_${how}`, async () => {
    const page = await both.visitor.open(both.stage, "#/approvals");
    await page.addInitScript((ms) => {
      const now = Date.now.bind(Date);
      Date.now = () => now() + ms;
    }, minutes * 60_000);
    await page.reload();
    await page.getByTestId("empty").waitFor();
    const call = calls("erase", { path: "a.txt" });
    await question(page).locator(".clock").getByText(/^(10:00|9:\d\d) min left/).waitFor();
    await page.getByTestId("once").click();
    assert.equal((await call).status, 200);
    await leave(page);
  });

test("a_form_of_a_server_is_answered", async () => {
  const page = await both.visitor.open(both.stage, "#/approvals");
  const call = both.stage.api("/api/v1/calls", { tool: "workshop/ask", arguments: {}, approved: true });
  const asked = page.locator('[data-testid="question"][data-status="form"]');
  await asked.getByText("Who are you?").waitFor();
  await asked.getByTestId("accept").click();
  await asked.getByText("is needed").waitFor();
  await asked.getByLabel("Your name").fill("Ada");
  await asked.getByTestId("accept").click();
  assert.equal((await call).body.text, "Hello, Ada!");
  const again = both.stage.api("/api/v1/calls", { tool: "workshop/ask", arguments: {}, approved: true });
  await asked.getByTestId("decline").click();
  assert.equal((await again).body.text, "You said decline.");
  await leave(page);
});

test("a_page_that_a_server_wants_opened_is_shown_in_full_first", async () => {
  const page = await both.visitor.open(both.stage, "#/approvals");
  const asked = page.locator('[data-testid="question"][data-status="url"]');
  const visit = () =>
    both.stage.api("/api/v1/calls", {
      tool: "workshop/visit",
      arguments: { url: "https://user@sign-in.example/a?b=c" },
      approved: true,
    });
  const call = visit();
  assert.equal(await asked.getByTestId("address").innerText(), "https://user@sign-in.example/a?b=c");
  const link = asked.getByTestId("open");
  assert.equal(await link.innerText(), "Open sign-in.example");
  assert.deepEqual(
    [await link.getAttribute("href"), await link.getAttribute("rel")],
    ["https://user@sign-in.example/a?b=c", "noopener noreferrer"],
  );
  await asked.getByTestId("decline").click();
  assert.equal((await call).body.text, "You said decline.");
  await leave(page);
});

test("a_tool_that_asks_while_it_is_tried_says_where_to_answer", async () => {
  const page = await both.visitor.open(both.stage, "#/tools/workshop/ask");
  await page.getByTestId("call").click();
  await page.getByTestId("progress").getByText("It waits for an answer.").waitFor();
  const { body } = await both.stage.api("/api/v1/approvals");
  await both.stage.api(`/api/v1/approvals/${body.approvals[0].id}`, { answer: "cancel" });
  await page.getByTestId("result").getByText("You said cancel.").waitFor();
  await leave(page);
});

test("what_always_runs_is_shown_and_asked_about_again_when_somebody_wants_that", async () => {
  const page = await both.visitor.open(both.stage, "#/approvals");
  const call = calls("erase", { path: "a.txt" });
  await page.getByTestId("always-server").waitFor();
  await page.getByTestId("session").waitFor();
  await page.getByTestId("always-tool").click();
  assert.equal((await call).status, 200);
  assert.equal((await calls("erase", { path: "b.txt" })).body.text, "erased b.txt");
  const standing = page.getByTestId("standing-answer");
  await standing.getByText("erase").waitFor();
  await standing.getByTestId("ask-again").click();
  await standing.waitFor({ state: "detached" });
  const again = calls("erase", { path: "c.txt" });
  await page.getByTestId("once").click();
  assert.equal((await again).body.text, "erased c.txt");
  await leave(page);
});

test("arguments_that_a_tool_does_not_take_are_said_so_and_the_question_stays", async () => {
  const page = await both.visitor.open(both.stage, "#/approvals");
  const call = calls("erase", { path: "a.txt" });
  await page.getByTestId("edit-arguments").click();
  await page.getByTestId("arguments-edit").fill('{"path": 5}');
  await page.getByTestId("once").click();
  await question(page).getByText("the tool does not take these arguments").waitFor();
  await page.getByTestId("arguments-edit").fill('{"path": "d.txt"}');
  await page.getByTestId("once").click();
  assert.equal((await call).body.text, "erased d.txt");
  await leave(page);
});

test("what_is_always_allowed_is_not_asked_again", async () => {
  const page = await both.visitor.open(both.stage, "#/approvals");
  const call = calls("erase", { path: "a.txt" });
  await page.getByTestId("always-tool").click();
  await call;
  assert.equal((await calls("erase", { path: "b.txt" })).body.text, "erased b.txt");
  const other = calls("refuse");
  await page.getByTestId("always-server").click();
  await other;
  assert.equal((await calls("echo", { text: "x" })).body.text, "x");
  await leave(page);
});
