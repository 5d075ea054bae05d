//! Each wire against scripted servers: the requests, the answers, and the result of every failure.

#![cfg(test)]

mod anthropic;
mod failures;
mod gemini;
mod local;
mod openai_chat;
mod openai_responses;
mod talk;
