//! temp
#[derive(Debug)] pub enum Provider { None }
#[derive(Debug)] pub struct Change;
#[derive(Debug)] pub struct Cleaned;
pub fn clean() {}
