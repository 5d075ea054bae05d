//! Stories of a database server, which has many tenants and many connections.

mod needs_postgres;
