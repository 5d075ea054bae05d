//! Stores what servers write to stderr and to their logs.

use crate::{
    Store, StoreError,
    database::{QueryBuilder, query},
};

/// The maximum number of lines of one server. Beyond that, the oldest are deleted.
const MAX_LINES: i64 = 2_000;

/// The maximum number of lines of all servers.
const MAX_TOTAL_LINES: i64 = 50_000;

/// The maximum size of one line, in bytes. A longer line is cut.
const MAX_TEXT_BYTES: usize = 8 * 1024;

/// One line of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// A number that grows with each stored line; 0 for a line that is not stored yet.
    pub id: i64,
    /// The server's name.
    pub server: String,
    /// The file that configures the server; empty if no file does. It distinguishes servers of the same name in two
    /// projects.
    pub source: String,
    /// When the server wrote the line, in milliseconds since 1970.
    pub at: i64,
    /// The kind of line, in a word such as `stderr`.
    pub kind: String,
    /// The text. Untrusted.
    pub text: String,
}

/// Which lines to read.
#[derive(Clone, Debug, Default)]
pub struct LogQuery {
    /// Only lines of these servers, each given by its name and [`source`](LogLine::source). Empty: of all servers.
    pub servers: Vec<(String, String)>,
    /// Only the oldest lines with a greater [`id`](LogLine::id). `None`: the newest lines.
    pub after: Option<i64>,
    /// The maximum number of lines. The default, 0, finds none.
    pub limit: usize,
}

/// The columns `id`, `server`, `source`, `at`, `kind` and `text`.
type Row = (i64, String, String, i64, String, String);

impl From<Row> for LogLine {
    fn from((id, server, source, at, kind, text): Row) -> Self {
        Self { id, server, source, at, kind, text }
    }
}

impl Store {
    /// Stores `lines` in their order and assigns their ids. Cuts each at 8 KiB, and deletes the oldest lines beyond
    /// 2,000 of one server and 50,000 of all servers.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails. It has then stored none of the lines.
    pub async fn keep_log(&self, lines: &[LogLine]) -> Result<(), StoreError> {
        if lines.is_empty() {
            return Ok(());
        }
        let operation = "keeping the log of a server";
        let mut transaction = self.begin(operation).await?;
        for line in lines {
            let end = line.text.floor_char_boundary(MAX_TEXT_BYTES);
            query("INSERT INTO server_log (server, source, at, kind, text) VALUES ($1, $2, $3, $4, $5)")
                .bind(&line.server)
                .bind(&line.source)
                .bind(line.at)
                .bind(&line.kind)
                .bind(&line.text[..end])
                .execute(&mut transaction)
                .await?;
        }
        let mut servers: Vec<_> = lines.iter().map(|line| (&line.server, &line.source)).collect();
        servers.sort();
        servers.dedup();
        for (server, source) in servers {
            // With `MAX_LINES` lines or fewer, the inner query finds no id, so the statement deletes nothing.
            query(
                "DELETE FROM server_log WHERE server = $1 AND source = $2 AND id <= (SELECT id FROM server_log \
                 WHERE server = $1 AND source = $2 ORDER BY id DESC LIMIT 1 OFFSET $3)",
            )
            .bind(server)
            .bind(source)
            .bind(MAX_LINES)
            .execute(&mut transaction)
            .await?;
        }
        query("DELETE FROM server_log WHERE id <= (SELECT id FROM server_log ORDER BY id DESC LIMIT 1 OFFSET $1)")
            .bind(MAX_TOTAL_LINES)
            .execute(&mut transaction)
            .await?;
        transaction.commit().await
    }

    /// Returns the lines that `query` describes. The oldest line comes first.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn log(&self, query: &LogQuery) -> Result<Vec<LogLine>, StoreError> {
        let mut builder = QueryBuilder::new("SELECT id, server, source, at, kind, text FROM server_log WHERE id > ");
        builder.push_bind(query.after.unwrap_or(0));
        for (index, (server, source)) in query.servers.iter().enumerate() {
            builder.push(if index == 0 { " AND (" } else { " OR " });
            builder.push("(server = ").push_bind(server).push(" AND source = ").push_bind(source).push(")");
        }
        if !query.servers.is_empty() {
            builder.push(")");
        }
        let order = if query.after.is_some() { " ORDER BY id LIMIT " } else { " ORDER BY id DESC LIMIT " };
        builder.push(order).push_bind(i64::try_from(query.limit).unwrap_or(i64::MAX));
        let rows: Vec<Row> =
            builder.build().fetch_all(&mut self.begin_read("reading the log of a server").await?).await?;
        let mut lines: Vec<_> = rows.into_iter().map(LogLine::from).collect();
        lines.sort_unstable_by_key(|line| line.id);
        Ok(lines)
    }
}

#[cfg(test)]
mod tests {
    use sqlx::{Connection as _, Executor as _};

    use super::*;
    use crate::tests::{Stage, on_both};

    fn line(server: &str, text: impl Into<String>) -> LogLine {
        let (server, text) = (server.to_owned(), text.into());
        LogLine { id: 0, server, source: "/f".to_owned(), at: 1, kind: "stderr".to_owned(), text }
    }

    async fn texts(store: &Store, query: LogQuery) -> Vec<String> {
        store.log(&query).await.unwrap().into_iter().map(|line| line.text).collect()
    }

    async fn the_newest_lines_of_a_server_come_back_in_order(stage: &Stage) {
        let store = stage.store().await;
        let lines = [line("a", "1"), line("b", "x"), line("a", "2"), line("a", "3")];
        store.keep_log(&lines).await.unwrap();
        let of = |server: &str, source: &str| LogQuery {
            servers: vec![(server.to_owned(), source.to_owned())],
            limit: 2,
            ..LogQuery::default()
        };
        assert_eq!(texts(&store, of("a", "/f")).await, ["2", "3"]);
        assert!(texts(&store, of("a", "/other")).await.is_empty());
        let all = store.log(&LogQuery { limit: 9, ..LogQuery::default() }).await.unwrap();
        assert_eq!(all.len(), 4);
        let after = |id, limit| LogQuery { after: Some(id), limit, ..LogQuery::default() };
        assert_eq!(texts(&store, after(all[2].id, 9)).await, ["3"]);
        assert_eq!(texts(&store, after(all[0].id, 2)).await, ["x", "2"], "the reader asks again for those that follow");
    }

    async fn old_lines_go_and_long_ones_are_cut(stage: &Stage) {
        let store = stage.store().await;
        store.keep_log(&[line("quiet", "ä".repeat(MAX_TEXT_BYTES))]).await.unwrap();
        let flood: Vec<_> = (0..MAX_LINES + 10).map(|number| line("loud", number.to_string())).collect();
        store.keep_log(&flood).await.unwrap();
        let all = texts(&store, LogQuery { limit: usize::MAX, ..LogQuery::default() }).await;
        assert_eq!(all.len() as i64, MAX_LINES + 1);
        assert_eq!(all[0].len(), MAX_TEXT_BYTES);
        assert_eq!(all[1], "10");
    }

    #[tokio::test]
    async fn of_very_many_servers_the_oldest_lines_go_of_whichever_server_they_are() {
        let (folder, store) = crate::tests::new_store().await;
        let mut file = crate::tests::raw(&folder.path().join("toolrack.db")).await;
        let fill = format!(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {MAX_TOTAL_LINES}) \
             INSERT INTO server_log (server, source, at, kind, text) SELECT 's' || (i % 40), '/f', i, 'stderr', i FROM n"
        );
        file.execute(sqlx::raw_sql(sqlx::AssertSqlSafe(fill))).await.unwrap();
        file.close().await.unwrap();
        store.keep_log(&[line("new", "x"), line("new", "y")]).await.unwrap();
        let all = texts(&store, LogQuery { limit: usize::MAX, ..LogQuery::default() }).await;
        assert_eq!(i64::try_from(all.len()).unwrap(), MAX_TOTAL_LINES);
        assert_eq!((&*all[0], &all[all.len() - 2..]), ("3", &["x".to_owned(), "y".to_owned()][..]));
        store.close().await;
    }

    async fn a_query_for_several_servers_tells_apart_those_of_one_name(stage: &Stage) {
        let store = stage.store().await;
        let from = |source: &str, text: &str| LogLine { source: source.to_owned(), ..line("fs", text) };
        store.keep_log(&[from("/a", "1"), from("/b", "2"), line("git", "3"), from("", "4")]).await.unwrap();
        for (servers, found) in [
            (vec![("fs", "/a")], vec!["1"]),
            (vec![("fs", "")], vec!["4"]),
            (vec![("fs", "/b"), ("git", "/f")], vec!["2", "3"]),
            (vec![("git", "/a"), ("fs", "/f")], vec![]),
            (vec![("FS", "/a")], vec![]),
        ] {
            let servers = servers.into_iter().map(|(name, source)| (name.to_owned(), source.to_owned())).collect();
            let query = LogQuery { servers, limit: 9, ..LogQuery::default() };
            assert_eq!(texts(&store, query.clone()).await, found, "{query:?}");
        }
        assert!(texts(&store, LogQuery::default()).await.is_empty(), "none are asked for");
    }

    on_both!(
        a_query_for_several_servers_tells_apart_those_of_one_name,
        the_newest_lines_of_a_server_come_back_in_order,
        old_lines_go_and_long_ones_are_cut,
    );
}
