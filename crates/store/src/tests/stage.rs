//! Runs the same test on both databases. A test that is a function of a [`Stage`] is called a story.

use super::*;

/// A database that only one test uses.
pub(crate) struct Stage(Kind);

enum Kind {
    Sqlite(tempfile::TempDir),
    #[cfg(feature = "postgres")]
    Postgres {
        server: toolrack_testkit::Postgres,
        database: Database,
    },
}

impl Stage {
    pub(crate) fn sqlite() -> Self {
        Self(Kind::Sqlite(tempfile::tempdir().unwrap()))
    }

    #[cfg(feature = "postgres")]
    pub(crate) async fn postgres() -> Self {
        let server = toolrack_testkit::Postgres::start();
        let database = Database::connect(DatabaseSettings::new(server.url())).await.unwrap();
        Self(Kind::Postgres { server, database })
    }

    /// Opens a store of the database.
    pub(crate) async fn store(&self) -> Store {
        match &self.0 {
            Kind::Sqlite(folder) => Store::open(folder.path().join("toolrack.db")).await.unwrap(),
            #[cfg(feature = "postgres")]
            Kind::Postgres { database, .. } => database.store("acme").await.unwrap(),
        }
    }

    /// Opens the store of the same rows, as another process would.
    pub(crate) async fn elsewhere(&self) -> Store {
        match &self.0 {
            Kind::Sqlite(_) => self.store().await,
            #[cfg(feature = "postgres")]
            Kind::Postgres { server, .. } => {
                let other = Database::connect(DatabaseSettings::new(server.url())).await.unwrap();
                other.store("acme").await.unwrap()
            }
        }
    }

    /// Closes the database, which has the store `store`.
    pub(crate) async fn close(&self, store: &Store) {
        match &self.0 {
            Kind::Sqlite(_) => store.close().await,
            #[cfg(feature = "postgres")]
            Kind::Postgres { database, .. } => database.close().await,
        }
    }

    /// Opens the store of a team in the database.
    pub(crate) async fn team(&self) -> TeamStore {
        self.store().await.with_team().await.unwrap()
    }
}

/// Makes a test of each story on SQLite, and one on Postgres.
macro_rules! on_both {
    ($($story:ident),+ $(,)?) => {
        mod on_sqlite {
            $(
                #[tokio::test]
                async fn $story() {
                    super::$story(&$crate::tests::Stage::sqlite()).await;
                }
            )+
        }

        #[cfg(feature = "postgres")]
        mod needs_postgres {
            $(
                #[tokio::test]
                async fn $story() {
                    super::$story(&$crate::tests::Stage::postgres().await).await;
                }
            )+
        }
    };
}

pub(crate) use on_both;
