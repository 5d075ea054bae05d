//! temp
pub(crate) fn of_tool(tool: &crate::mcp::Tool) -> usize { tool.input_schema.get().len() / 4 }
