//! Toolrack as a service: control API, live events, dashboard, and one MCP endpoint in front of all servers.

mod dashboard;
