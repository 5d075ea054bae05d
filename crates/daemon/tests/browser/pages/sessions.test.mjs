import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { leave, staged } from "../stage.mjs";

const both = staged({ converse: true });

test("a_conversation_is_read_with_its_calls", async () => {
  const page = await both.visitor.open(both.stage, "#/sessions");
  await page.getByTestId("search").fill("nothing like this");
  await page.getByText("Nothing found.").waitFor();
  await page.getByTestId("search").fill("");
  await page.getByTestId("session").getByRole("link", { name: "What does it say?" }).click();
  await page.locator('[data-testid="message"][data-status="user"]').getByText("What does it say?").waitFor();
  const made = page.locator('[data-testid="tool-call"][data-status="ok"]');
  await made.getByText("mcp__workshop__echo").click();
  await made.getByText('"text": "hello"').waitFor();
  await made.getByRole("group", { name: "Result" }).getByText("hello").waitFor();
  await page.getByText("It said hello.").waitFor();
  await leave(page);
});

test("a_conversation_is_exported", async () => {
  const page = await both.visitor.open(both.stage, "#/sessions");
  await page.getByTestId("session").getByRole("link").click();
  for (const [format, part] of [
    ["md", /It said hello\./],
    ["json", /"messages"/],
  ]) {
    const [download] = await Promise.all([page.waitForEvent("download"), page.getByTestId(`export-${format}`).click()]);
    assert.match(download.suggestedFilename(), new RegExp(`^session-.*\\.${format}$`));
    assert.match(readFileSync(await download.path(), "utf8"), part);
  }
  await leave(page);
});

test("a_conversation_is_deleted_after_a_question", async () => {
  const page = await both.visitor.open(both.stage, "#/sessions");
  await page.getByTestId("session").getByRole("link").click();
  await page.getByTestId("delete").click();
  await page.getByTestId("confirm").getByRole("button", { name: "Cancel" }).click();
  await page.getByTestId("delete").click();
  await page.getByTestId("confirm-action").click();
  await page.getByTestId("empty").getByText("No conversations yet").waitFor();
  await leave(page);
});
