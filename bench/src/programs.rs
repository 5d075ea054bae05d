//! Finds and starts the programs that are built together with this one.

use std::{
    env,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use crate::AnyError;

/// Returns the path of a program that is built together with this one.
///
/// # Errors
/// When it is missing.
pub fn sibling_program(name: &str) -> Result<PathBuf, AnyError> {
    let path = env::current_exe()?.with_file_name(name);
    if path.exists() { Ok(path) } else { Err(format!("{} is not built", path.display()).into()) }
}

/// The fast server over HTTP, which runs until this value is dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// The URL at which the server listens.
    pub url: String,
}

impl Server {
    /// Starts the server on a free port, with these options of `bench-server`.
    ///
    /// # Errors
    /// When the server does not start.
    pub fn start(options: &[&str]) -> Result<Self, AnyError> {
        let mut command = Command::new(sibling_program("bench-server")?);
        let mut child = command.arg("http").args(options).stdout(Stdio::piped()).spawn()?;
        let stdout = child.stdout.take().ok_or("no stdout")?;
        let mut url = String::new();
        BufReader::new(stdout).read_line(&mut url)?;
        Ok(Self { child, url: url.trim().to_owned() })
    }

    /// Asks the server for the number of connections that it has accepted, without those of this method.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn accepted(&self) -> Result<u64, AnyError> {
        let address = self.url.trim_start_matches("http://").trim_end_matches("/mcp");
        let mut stream = TcpStream::connect(address)?;
        stream.write_all(b"GET /accepted HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (_, body) = answer.split_once("\r\n\r\n").ok_or("no answer")?;
        Ok(body.trim().parse()?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
