import assert from "node:assert/strict";
import { test } from "node:test";
import { leave, staged } from "../stage.mjs";

const both = staged();
const open = (tab) => both.visitor.open(both.stage, `#/servers/workshop/${tab}`);

test("its_tools_lead_to_their_pages", async () => {
  const page = await open("tools");
  await page.getByTestId("tools").getByRole("link", { name: "echo" }).click();
  await page.getByRole("heading", { name: "echo", level: 1 }).waitFor();
  await leave(page);
});

test("its_resources_are_read", async () => {
  const page = await open("resources");
  await page.getByRole("button", { name: "Read A note" }).click();
  await page.getByTestId("contents").getByText("This is memo://note.").waitFor();
  const template = page.getByTestId("template");
  await template.getByRole("textbox").fill("memo://other");
  await template.getByRole("button", { name: "Read" }).click();
  await page.getByTestId("contents").getByText("This is memo://other.").waitFor();
  await leave(page);
});

test("its_prompts_are_filled_in", async () => {
  const page = await open("prompts");
  const prompt = page.getByTestId("prompt");
  await prompt.getByLabel("who").fill("Ada");
  await prompt.getByRole("button", { name: "Fill in" }).click();
  await page.getByTestId("messages").getByText("Greet Ada.").waitFor();
  await leave(page);
});

test("its_configuration_hides_secrets_and_shows_placeholders", async () => {
  const page = await open("config");
  const text = await page.getByTestId("config").innerText();
  assert.match(text, /"SECRET": "\*\*\*"/);
  assert.match(text, /"API_KEY": "\$\{API_KEY\}"/);
  assert.doesNotMatch(await page.content(), /sk-1234567890|sesame-open/);
  await leave(page);
});

test("its_logs_go_on_by_themselves", async () => {
  const page = await open("logs");
  await page.getByTestId("log").getByText("the workshop is open").first().waitFor();
  await both.stage.api("/api/v1/calls", { tool: "workshop/echo", arguments: { text: "x" }, approved: true });
  await page.getByTestId("log").getByText("called echo").waitFor();
  await page.getByRole("searchbox").fill("open");
  await page.getByTestId("log").getByText("called echo").waitFor({ state: "detached" });
  await leave(page);
});

test("its_history_begins_before_the_page_was_opened", async () => {
  const page = await open("history");
  await page.getByTestId("history").getByText("the connection stands").first().waitFor();
  await both.stage.api("/api/v1/calls", { tool: "workshop/echo", arguments: { text: "x" }, approved: true });
  await page
    .getByTestId("history")
    .getByText(/^echo: ok in/)
    .first()
    .waitFor();
  await leave(page);
});

test("its_health_is_told_step_by_step", async () => {
  const page = await open("health");
  await page.locator('[data-testid="test-result"][data-status="ok"]').getByText("It works.").waitFor();
  await page.goto(`${both.stage.origin}/#/servers/broken/health`);
  await page
    .locator('[data-testid="test-result"][data-status="failed"]')
    .getByText(/no-such-program/)
    .waitFor();
  await leave(page);
});

test("the_page_of_a_missing_server_says_so", async () => {
  const page = await both.visitor.open(both.stage, "#/servers/nothing");
  await page.getByTestId("no-server").waitFor();
  await leave(page);
});
