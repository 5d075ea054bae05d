import assert from "node:assert/strict";
import { test } from "node:test";
import { leave, staged } from "../stage.mjs";

const both = staged();

/** A program that calls a tool, and waits for its result. */
const calls = (tool, given = {}) => both.stage.api("/api/v1/calls", { tool: `workshop/${tool}`, arguments: given });
const question = (page) => page.getByTestId("question");

test("a_call_waits_for_an_approval_and_the_title_counts_it", async () => {
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
  assert.deepEqual(answers, ['{"answer":"once"}', `{"answer":"once","arguments":{"path":"m.txt","id":${long}}}`]);
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
  // From here on the test moves the page's clock, so that the click comes at an exact time.
  await page.clock.install();
  await page.clock.pauseAt(Date.now() + 60_000);
  const over = new AbortController();
  const gone = both.stage
    .api("/api/v1/calls", { tool: "workshop/erase", arguments: { path: "first" } }, over.signal)
    .catch(() => {});
  const [first, second] = [question(page).filter({ hasText: "first" }), question(page).filter({ hasText: "second" })];
  // The page gathers changes for a while, by its clock, before it fetches them.
  const appears = async (/** @type {any} */ shown) => {
    for (let tries = 0; tries < 100 && (await shown.count()) === 0; tries++) {
      await page.clock.runFor(100);
      await shown.waitFor({ timeout: 100 }).catch(() => {});
    }
    await shown.waitFor();
  };
  await appears(first);
  const call = calls("erase", { path: "second" });
  await appears(second);
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
  assert.equal(await waiting(), 1, "the second has no answer");
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
  await asked.waitFor({ state: "detached" });
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
      arguments: { url: "https://sign-in.example/a?b=c" },
      approved: true,
    });
  const call = visit();
  assert.equal(await asked.getByTestId("address").innerText(), "https://sign-in.example/a?b=c");
  const link = asked.getByTestId("open");
  assert.equal(await link.innerText(), "Open sign-in.example");
  assert.deepEqual(
    [await link.getAttribute("href"), await link.getAttribute("rel")],
    ["https://sign-in.example/a?b=c", "noopener noreferrer"],
  );
  await asked.getByTestId("decline").click();
  assert.equal((await call).body.text, "You said decline.");
  await leave(page);
});

test("a_tool_that_asks_while_it_is_tried_is_answered_in_place", async () => {
  const page = await both.visitor.open(both.stage, "#/tools/workshop/ask");
  await page.getByTestId("call").click();
  const asked = page.locator('[data-testid="question"][data-status="form"]');
  await asked.getByText("Who are you?").waitFor();
  assert.equal(await asked.getByTestId("caller").getAttribute("data-status"), "daemon");
  const fields = asked.locator('[data-testid^="field-/"]');
  assert.deepEqual(await fields.evaluateAll((all) => all.map(({ dataset }) => dataset.testid)), [
    "field-/name",
    "field-/likes",
  ]);
  await asked.getByLabel("Your name").fill("Ada");
  await asked.getByTestId("accept").click();
  await page.getByTestId("result").getByText("Hello, Ada!").waitFor();
  assert.equal(new URL(page.url()).hash, "#/tools/workshop/ask");
  await leave(page);
});

test("a_call_goes_on_while_its_question_is_answered_on_the_page_of_approvals", async () => {
  const page = await both.visitor.open(both.stage, "#/tools/workshop/ask");
  await page.getByTestId("call").click();
  await question(page).waitFor();
  await page.getByTestId("nav-count-approvals").click();
  await page.getByTestId("said").getByText("The call of workshop/ask goes on").waitFor();
  await question(page).getByLabel("Your name").fill("Ada");
  await question(page).getByTestId("accept").click();
  await page.getByTestId("said").getByText("The call of workshop/ask has ended").waitFor();
  await page.goto(`${both.stage.origin}/#/tools/workshop/ask`);
  await page.getByTestId("result").getByText("Hello, Ada!").waitFor();
  await leave(page);
});

test("what_a_person_should_look_at_is_told_with_the_question_and_a_cut_description_says_so", async () => {
  const page = await both.visitor.open(both.stage, "#/approvals");
  const call = calls("poisoned");
  await question(page).getByTestId("findings").getByText("description").first().waitFor();
  assert.ok(!(await question(page).getByTestId("description").innerText()).includes("id_rsa"));
  await question(page).getByTestId("description-more").click();
  assert.match(await question(page).getByTestId("description").innerText(), /id_rsa/);
  await page.getByTestId("once").click();
  assert.equal((await call).status, 200);
  await leave(page);
});

test("a_question_of_another_client_is_not_shown_at_a_call_that_is_tried", async () => {
  const page = await both.visitor.open(both.stage, "#/tools/workshop/slow");
  const call = calls("erase", { path: "other.txt" });
  await page.getByTestId("nav-count-approvals").waitFor();
  await page.getByTestId("call").click();
  await page.getByTestId("progress").waitFor();
  assert.equal(await question(page).count(), 0);
  await page.getByTestId("result").waitFor();
  await page.getByTestId("nav-approvals").click();
  await page.getByTestId("once").click();
  await call;
  await leave(page);
});

test("an_approval_says_who_asks_and_that_a_name_is_a_claim", async () => {
  const { stage, visitor } = both;
  const page = await visitor.open(stage, "#/approvals");
  const url = `http://${stage.host}/mcp`;
  const headers = {
    authorization: `Bearer ${stage.token}`,
    "content-type": "application/json",
    accept: "application/json, text/event-stream",
  };
  const post = (message, more = {}) =>
    fetch(url, { method: "POST", headers: { ...headers, ...more }, body: JSON.stringify({ jsonrpc: "2.0", ...message }) });
  const clientInfo = { name: "an <b>editor</b>", version: "1" };
  const hello = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo };
  const begun = await post({ id: 1, method: "initialize", params: hello });
  const session = begun.headers.get("mcp-session-id");
  await begun.text();
  const list = await post({ id: 2, method: "tools/list", params: {} }, { "mcp-session-id": session });
  const [, name] = /"name":"([^"]*erase)"/.exec(await list.text());
  const call = post({ id: 3, method: "tools/call", params: { name, arguments: { path: "x" } } }, { "mcp-session-id": session });
  const caller = question(page).getByTestId("caller");
  await caller.getByText("an <b>editor</b>").waitFor();
  assert.match(await caller.innerText(), /its own claim[^]*through the gateway over http/);
  const { body } = await stage.api("/api/v1/approvals");
  assert.deepEqual(body.approvals[0].caller, {
    way: "gateway",
    tenant: null,
    subject: null,
    name: null,
    over: "http",
    client: "an <b>editor</b>",
    session: session.slice(0, 8),
    request: null,
    conversation: null,
    agent: null,
  });
  assert.ok(!JSON.stringify(body).includes(session), "a whole session id opens the session");
  await page.getByTestId("once").click();
  assert.match(await (await call).text(), /erased x/);
  const logged = async () => {
    const { body } = await stage.api("/api/v1/audit?tool=erase");
    return body.rows.find(({ kind, who }) => kind === "call" && who === "gateway");
  };
  // The daemon writes a row after its call has ended.
  let row = await logged();
  for (let tries = 0; !row && tries < 100; tries += 1) {
    await new Promise((next) => setTimeout(next, 50));
    row = await logged();
  }
  assert.deepEqual([row.client, row.over, row.session], ["an <b>editor</b>", "http", session.slice(0, 8)]);
  await leave(page);
});

test("what_always_runs_is_shown_and_asked_about_again_on_request", async () => {
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
