//! Each wire against scripted servers: what is sent, what is understood, and what becomes of every failure.

#![cfg(test)]

mod anthropic;
mod failures;
mod gemini;
mod local;
mod openai_chat;
mod openai_responses;
mod talk;
