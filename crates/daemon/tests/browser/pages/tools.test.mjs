import assert from "node:assert/strict";
import { test } from "node:test";
import { leave, staged } from "../stage.mjs";

const both = staged();
const open = (tool) => both.visitor.open(both.stage, `#/tools/workshop/${tool}`);
const field = (page, path) => page.getByTestId(`field-${path}`);
const result = (page, status) => page.locator(`[data-testid="result"][data-status="${status}"]`);

test("tools_of_all_servers_are_searched", async () => {
  const page = await both.visitor.open(both.stage, "#/tools");
  await page.locator('[data-testid="tool"][data-name="builtin/list_directory"]').waitFor();
  await page.getByTestId("search").fill("erase a file");
  await page.waitForFunction(() => document.querySelector('[data-testid="tool"]')?.dataset.name === "workshop/erase");
  assert.match(page.url(), /q=erase/, "a search has an address");
  await page.getByTestId("search").fill("zzzzzz");
  await page.getByTestId("empty").getByText("Nothing found").waitFor();
  await page.getByTestId("search").fill("");
  await page.getByTestId("server-filter").selectOption("workshop");
  await page.waitForFunction(() => document.querySelectorAll('[data-testid="tool"]').length === 10);
  assert.deepEqual(new URL(page.url()).hash, "#/tools?server=workshop");
  await leave(page);
});

test("all_tools_can_be_reached_without_a_search", async () => {
  const page = await both.visitor.open(both.stage);
  const annotations = { read_only: null, destructive: null, idempotent: null, open_world: null };
  const tool = (_, number) => ({ server: "many", tool: `t${number}`, name: `t${number}`, tokens: 1, annotations });
  await page.route("**/api/v1/tools?*", (route) => {
    const limit = Number(new URL(route.request().url()).searchParams.get("limit"));
    return route.fulfill({ json: { version: 1, total: 356, tools: Array.from({ length: Math.min(limit, 356) }, tool) } });
  });
  await page.getByTestId("nav-tools").click();
  await page.getByText("The first 200 are shown.").waitFor();
  await page.getByTestId("more").click();
  await page.locator('[data-name="many/t355"]').waitFor();
  assert.equal(await page.getByTestId("tool").count(), 356);
  assert.equal(await page.getByTestId("more").count(), 0, "there are no others");
  await leave(page);
});

test("the_page_of_a_tool_follows_its_server", async () => {
  const page = await open("echo");
  await page.getByTestId("try").waitFor();
  await both.stage.api("/api/v1/servers/workshop/disconnect", {});
  await page.getByTestId("away").getByText("Its server is not connected (disconnected)").waitFor();
  await page.reload();
  await page.getByTestId("away").waitFor();
  assert.equal(await page.getByTestId("try").count(), 0);
  await both.stage.api("/api/v1/servers/workshop/connect", {});
  await page.getByTestId("try").waitFor();
  assert.equal(await page.getByTestId("away").count(), 0);
  await leave(page);
});

test("a_tool_is_tried_through_its_form", async () => {
  const page = await open("echo");
  await page.getByTestId("call").click();
  await field(page, "/text").getByText("is needed").waitFor();
  await field(page, "/text").getByRole("textbox").fill("hello");
  await field(page, "/times").getByRole("textbox").fill("2");
  await page.getByTestId("set-/loud").click();
  await field(page, "/loud").getByRole("checkbox").check();
  await page.getByTestId("call").click();
  await result(page, "ok").getByText("HELLO HELLO").waitFor();
  await page.getByTestId("copy-command").click();
  await page.getByTestId("said").getByText("Copied").waitFor();
  const copied = await page.evaluate(() => navigator.clipboard.readText());
  assert.equal(copied, `toolrack call workshop/echo --args '{"text":"hello","times":2,"loud":true}'`);
  await leave(page);
});

test("every_kind_of_argument_has_a_field", async () => {
  const page = await open("shapes");
  await field(page, "/name").getByRole("textbox").fill("Ada");
  await field(page, "/colour").getByRole("combobox").selectOption({ label: "green" });
  await page.getByTestId("set-/note").click();
  await page.getByTestId("kind-/note").selectOption({ label: "null" });
  await page.getByTestId("set-/size").click();
  await page.getByTestId("kind-/size").selectOption({ label: "Named" });
  await field(page, "/size").getByRole("combobox").last().selectOption({ label: "large" });
  await field(page, "/address/street").getByRole("textbox").fill("Main Street");
  await page.getByTestId("set-/tags").click();
  await page.getByTestId("add-/tags").click();
  await page.getByTestId("add-/tags").click();
  await field(page, "/tags/0").getByRole("textbox").fill("one");
  await field(page, "/tags/1").getByRole("textbox").fill("two");
  await page.getByRole("button", { name: "Remove tags 1" }).click();
  await page.getByTestId("set-/points").click();
  await page.getByTestId("add-/points").click();
  await field(page, "/points/0/x").getByRole("textbox").fill("1.5");
  await field(page, "/points/0/y").getByRole("textbox").fill("-2");
  await field(page, "/extra").getByRole("textbox").fill('{"any": [1]}');
  await page.getByTestId("call").click();
  const structured = JSON.parse(await result(page, "ok").getByTestId("structured").innerText());
  assert.deepEqual(structured, {
    name: "Ada",
    colour: "green",
    note: null,
    size: "large",
    address: { street: "Main Street" },
    tags: ["two"],
    points: [{ x: 1.5, y: -2 }],
    extra: { any: [1] },
  });
  await leave(page);
});

test("arguments_move_between_fields_and_json", async () => {
  const page = await open("echo");
  await field(page, "/text").getByRole("textbox").fill("typed");
  await page.getByTestId("as-json").click();
  assert.deepEqual(JSON.parse(await page.getByTestId("raw-json").inputValue()), { text: "typed", times: 1 });
  await page.getByTestId("raw-json").fill('{"text": ');
  await page.getByTestId("as-fields").click();
  await page.getByText(/this is not JSON/).waitFor();
  await page.getByTestId("raw-json").fill('{"text": "changed", "times": 3}');
  await page.getByTestId("as-fields").click();
  assert.equal(await field(page, "/text").getByRole("textbox").inputValue(), "changed");
  await leave(page);
});

test("pictures_sounds_and_resources_are_shown_and_traps_are_not", async () => {
  const page = await open("media");
  await page.getByTestId("call").click();
  await result(page, "ok").waitFor();
  await page.waitForFunction(() => document.querySelector('[data-testid="block-image"]')?.naturalWidth === 1);
  await page.waitForFunction(() => document.querySelector("audio")?.readyState >= 1);
  await page.getByTestId("block-resource").getByText("A note.").waitFor();
  await page.getByTestId("block-unshown").getByText("image/svg+xml").waitFor();
  const links = page.getByTestId("block-link").getByTestId("address");
  assert.deepEqual(await links.evaluateAll((all) => all.map(({ tagName, textContent }) => [tagName, textContent])), [
    ["A", "https://example.com/page"],
    ["SPAN", "javascript:alert(1)"],
  ]);
  await leave(page);
});

test("progress_is_shown_and_a_call_is_cancelled", async () => {
  const page = await open("slow");
  await field(page, "/steps").getByRole("textbox").fill("100");
  await page.getByTestId("call").click();
  await page
    .getByTestId("progress")
    .getByText(/^step [2-9]/)
    .waitFor();
  await page.getByTestId("cancel").click();
  await page.getByTestId("cancelled").waitFor();
  for (let tries = 0; ; tries += 1) {
    const { body } = await both.stage.api("/api/v1/overview");
    if (body.recent[0]?.tool === "slow" && body.recent[0].outcome === "cancelled") break;
    assert.ok(tries < 100, JSON.stringify(body.recent));
    await new Promise((next) => setTimeout(next, 50));
  }
  await leave(page);
});

test("an_error_of_a_tool_is_a_result_that_says_so", async () => {
  const page = await open("refuse");
  await page.getByTestId("call").click();
  await result(page, "error").getByText("I will not.").waitFor();
  await leave(page);
});

test("what_a_server_writes_stays_text", async () => {
  const page = await open("hostile");
  await page.getByTestId("call").click();
  const said = await result(page, "ok").getByTestId("block-text").innerText();
  assert.match(said, /^<img src=x onerror=/);
  await page.goto(`${both.stage.origin}/#/tools`);
  await page
    .getByText(/<script>document\.title/)
    .first()
    .waitFor();
  assert.equal(await page.locator("main img").count(), 0);
  assert.doesNotMatch(await page.title(), /owned/);
  await leave(page);
});

test("a_tool_with_something_to_look_at_is_marked_wherever_it_is_listed", async () => {
  const page = await both.visitor.open(both.stage);
  await page.getByTestId("step-findings").getByText("1 tool has something").waitFor();
  await page.getByTestId("step-findings").getByRole("link").click();
  const tool = page.getByTestId("tool");
  await tool.getByTestId("finding-mark").waitFor();
  assert.deepEqual(await tool.evaluateAll((all) => all.map(({ dataset }) => dataset.name)), ["workshop/poisoned"]);
  assert.ok(!(await tool.getByTestId("description").innerText()).includes("id_rsa"));
  await tool.getByTestId("description-more").getByText("Cut here").click();
  assert.match(await tool.getByTestId("description").innerText(), /id_rsa/);
  await page.goto(`${both.stage.origin}/#/servers`);
  await page.locator('[data-testid="server"][data-name="workshop"]').getByTestId("finding-mark").waitFor();
  await page.goto(`${both.stage.origin}/#/servers/workshop`);
  await page.getByTestId("server").getByTestId("finding-mark").waitFor();
  await page.locator('[data-testid="tool"][data-name="workshop/poisoned"]').getByTestId("finding-mark").waitFor();
  await leave(page);
});

test("the_page_of_a_missing_tool_says_so", async () => {
  const page = await open("nothing");
  await page
    .getByTestId("trouble")
    .getByText(/no such tool/)
    .waitFor();
  await leave(page);
});
