import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { leave, staged } from "../stage.mjs";

describe("a_machine_with_servers", () => {
  const both = staged();

  test("says_how_things_are_and_what_to_do_next", async () => {
    const page = await both.visitor.open(both.stage);
    await page.getByTestId("figure-servers").getByText("2").first().waitFor();
    assert.match(await page.getByTestId("figure-servers").innerText(), /Servers connected\s+2 of 5/);
    await page.getByTestId("step-trust").getByText("A project asks to run 1 server").waitFor();
    assert.equal(await page.getByTestId("step-first").count(), 0);
    assert.match(await page.getByTestId("figure-approvals").innerText(), /Waiting for you\s+1\b/);
    await page.getByTestId("step-trust").getByRole("link").click();
    await page.getByRole("heading", { name: "Trust", level: 1 }).waitFor();
    await leave(page);
  });

  test("a_call_appears_by_itself", async () => {
    const page = await both.visitor.open(both.stage);
    await page.getByText("None since the start.").waitFor();
    await both.stage.api("/api/v1/calls", { tool: "workshop/refuse", arguments: {}, approved: true });
    const row = page.getByTestId("recent").locator('li[data-status="tool_error"]');
    await row.getByText("workshop/refuse").waitFor();
    await page.getByTestId("figure-errors").getByText("1", { exact: true }).waitFor();
    await leave(page);
  });

  test("a_state_leads_to_the_servers_that_are_in_it", async () => {
    const page = await both.visitor.open(both.stage);
    await page.getByTestId("states").locator('[data-status="disabled"]').click();
    await page.getByTestId("filter").waitFor();
    await page.getByTestId("server").first().waitFor();
    assert.deepEqual(await page.getByTestId("server").evaluateAll((rows) => rows.map((row) => row.dataset.name)), [
      "old",
    ]);
    await leave(page);
  });
});

describe("a_fresh_machine", () => {
  const both = staged({ empty: true });

  test("says_how_to_begin", async () => {
    const page = await both.visitor.open(both.stage);
    await page.getByTestId("step-first").getByText("Add your first server").waitFor();
    await page.getByTestId("step-first").getByRole("link", { name: "Import" }).click();
    await page.getByTestId("empty").getByText("Nothing to import").waitFor();
    await leave(page);
  });
});
