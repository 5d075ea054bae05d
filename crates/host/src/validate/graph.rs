//! Predicts how many evaluations a validation takes, from the graph of a schema's subschemas and without validating.
//!
//! The *instance* is the JSON that would be validated. A subschema applies *in place* if it is evaluated with the same
//! instance as the schema that holds it (`allOf`, `$ref`); others apply to a part of the instance (`properties`,
//! `items`).

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value};

use super::{MAX_DEPTH, MAX_NODES, MAX_PATTERN_STATES, MAX_VALUES, SchemaProblem, pattern};

/// The deepest recursion of a validation: levels of the instance times subschemas that apply to one level. It bounds
/// the stack, here and in the validator.
const MAX_RECURSION: usize = 256;

/// How many bytes of text, or how many compared JSON values, cost as much as one evaluation (about 40 ns, measured).
const CHEAP_UNITS_PER_STEP: u64 = 16;

/// The longest text for a regular expression that backtracks, in bytes: its cost can grow with the square of the
/// length.
const MAX_BACKTRACKING_BYTES: usize = 1_000;

/// The fixed cost of running an expression that backtracks on one text, in evaluations. The part that grows with the
/// square of the length comes on top.
const BACKTRACKING_STEPS: u64 = 16;

/// How many pairs of bytes cost one evaluation in an expression that backtracks.
const BACKTRACKING_PAIRS_PER_STEP: u64 = 64;

/// The number of items up to which `uniqueItems` compares each item with each other one. The validator finds equal
/// items in a longer list by their hashes.
const MAX_COMPARED_ITEMS: usize = 16;

/// The cost of one item for `uniqueItems`, in evaluations, in addition to that of comparing it.
const UNIQUE_ITEM_STEPS: u64 = 4;

/// The divisor of the budget for a schema with expressions that backtrack. If an expression gives up, the validator
/// runs again for each possible result of the expression, up to 64 times in all.
const BACKTRACKING_RUNS: u64 = 16;

/// A schema as a graph: each subschema is a node, and an edge leads to each subschema that is evaluated with it.
#[derive(Debug)]
pub(super) struct Graph {
    nodes: Vec<Node>,
    may_backtrack: bool,
}

type NodeId = usize;

/// A subschema: the cost of evaluating it, and the other subschemas that are evaluated with it.
#[derive(Debug, Default)]
struct Node {
    /// The evaluations for the keywords without subschemas.
    weight: u64,
    /// The subschemas for the same instance: `allOf`, `anyOf`, `$ref`, `if`, …
    in_place: Vec<NodeId>,
    /// How often each of `in_place` is evaluated.
    in_place_times: u64,
    /// Whether there is `unevaluatedProperties` or `unevaluatedItems`. The validator must then find out which parts of
    /// the instance the subschemas evaluate.
    marks_evaluated: bool,
    /// The subschemas for the property of that name.
    properties: BTreeMap<String, NodeId>,
    /// The subschemas for properties in general: `additionalProperties`, `patternProperties`, …
    each_property: Vec<NodeId>,
    /// The subschemas for the names of the properties.
    each_name: Vec<NodeId>,
    /// The subschemas for the first items, by position.
    prefix_items: Vec<NodeId>,
    /// The subschemas for items in general.
    each_item: Vec<NodeId>,
    /// Whether `uniqueItems` compares whole items.
    compares_items: bool,
    /// The states of the expression that runs on a text.
    text_states: u64,
    /// The states of the expressions that run on each name of a property.
    name_states: u64,
    /// Whether one of these expressions may backtrack.
    may_backtrack: bool,
}

impl Graph {
    /// Reads a schema. Refuses a schema that is too large, or that refers outside itself.
    pub(super) fn of(schema: &Value) -> Result<Self, SchemaProblem> {
        check_json(schema)?;
        let mut reader = GraphReader { root: schema, anchors: None, ids: HashMap::new(), subschemas: Vec::new() };
        // The root gets the first id, 0.
        reader.id_of(schema);
        let mut graph = Self { nodes: Vec::new(), may_backtrack: false };
        // Nodes are read in the order in which they were found, so the position of a node in the list is its id.
        while let Some(&value) = reader.subschemas.get(graph.nodes.len()) {
            let is_root = graph.nodes.is_empty();
            let node = reader.read_node(value, is_root)?;
            // Unfolded, a schema has at least as many nodes, so the limit for unfolded nodes holds here as well.
            if reader.subschemas.len() as u64 > MAX_NODES {
                return Err(SchemaProblem::TooManyNodes);
            }
            graph.may_backtrack |= node.may_backtrack;
            graph.nodes.push(node);
        }
        let states: u64 =
            graph.nodes.iter().fold(0, |sum, node| sum.saturating_add(node.text_states + node.name_states));
        if states > MAX_PATTERN_STATES {
            return Err(SchemaProblem::PatternsTooLarge);
        }
        graph.unfold()?;
        Ok(graph)
    }

    /// Refuses a schema that unfolds to too many nodes or without end, and sets how often in-place subschemas are
    /// evaluated.
    fn unfold(&mut self) -> Result<(), SchemaProblem> {
        self.check_unfolded()?;
        let mut heights = vec![None; self.nodes.len()];
        for id in 0..self.nodes.len() {
            if self.nodes[id].marks_evaluated {
                // To find out which parts were evaluated, the validator evaluates all levels below again, at each
                // level.
                self.nodes[id].in_place_times = 3 + self.height(id, &mut heights);
            }
        }
        self.check_unfolded()
    }

    /// Refuses a schema that unfolds to too many nodes or without end.
    fn check_unfolded(&self) -> Result<(), SchemaProblem> {
        let (root, steps_in) = (0, false);
        Unfolding { nodes: &self.nodes, path: Vec::new(), count: 0 }.visit(root, steps_in)
    }

    /// Returns the number of levels of in-place subschemas below a node. The first [`Self::check_unfolded`] has made
    /// sure that these levels form no circle.
    fn height(&self, id: NodeId, known_heights: &mut [Option<u64>]) -> u64 {
        if let Some(height) = known_heights[id] {
            return height;
        }
        let height =
            self.nodes[id].in_place.iter().map(|&next| 1 + self.height(next, known_heights)).max().unwrap_or(0);
        known_heights[id] = Some(height);
        height
    }

    /// Returns the number of evaluations in the worst case for this instance; `None` if it exceeds `budget`.
    pub(super) fn cost(&self, instance: &Value, budget: u64) -> Option<u64> {
        let budget = if self.may_backtrack { budget / BACKTRACKING_RUNS } else { budget };
        let mut run = DryRun { nodes: &self.nodes, steps: 0, budget };
        let (root, depth) = (0, 0);
        run.evaluate(root, instance, depth).map(|()| run.steps)
    }
}

/// Checks the bounds of the schema's JSON, before any function recurses into it.
fn check_json(schema: &Value) -> Result<(), SchemaProblem> {
    let mut values = 0;
    let mut pending = vec![(schema, 0)];
    while let Some((value, depth)) = pending.pop() {
        values += 1;
        if values > MAX_VALUES {
            return Err(SchemaProblem::TooManyNodes);
        }
        if depth > MAX_DEPTH {
            return Err(SchemaProblem::TooDeep);
        }
        match value {
            Value::Array(items) => pending.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(map) => pending.extend(map.values().map(|value| (value, depth + 1))),
            _ => {}
        }
    }
    Ok(())
}

/// Builds nodes, and numbers each subschema when it is first found.
struct GraphReader<'s> {
    root: &'s Value,
    /// The subschemas by anchor. Collected when the first reference names an anchor.
    anchors: Option<HashMap<&'s str, &'s Value>>,
    /// The ids by address: a subschema is the same one on every path.
    ids: HashMap<*const Value, NodeId>,
    /// The subschemas by id.
    subschemas: Vec<&'s Value>,
}

impl<'s> GraphReader<'s> {
    /// Returns the id of a subschema, a new one when it is found for the first time.
    fn id_of(&mut self, schema: &'s Value) -> NodeId {
        let subschemas = &mut self.subschemas;
        *self.ids.entry(schema).or_insert_with(|| {
            subschemas.push(schema);
            subschemas.len() - 1
        })
    }

    /// Creates the node of a subschema.
    fn read_node(&mut self, schema: &'s Value, is_root: bool) -> Result<Node, SchemaProblem> {
        let mut node = Node { weight: 1, in_place_times: 1, ..Node::default() };
        let Value::Object(keywords) = schema else {
            return Ok(node);
        };
        for (keyword, value) in keywords {
            node.weight += 1;
            self.read_keyword(&mut node, keyword, value)?;
        }
        if !is_root && keywords.contains_key("$id") {
            return Err(SchemaProblem::Unsupported { keyword: "a nested $id" });
        }
        Ok(node)
    }

    /// Adds a keyword to the node of its schema: the work that it takes, and the subschemas that it refers to.
    fn read_keyword(&mut self, node: &mut Node, keyword: &str, value: &'s Value) -> Result<(), SchemaProblem> {
        match keyword {
            "$ref" => node.in_place.push(self.resolve_reference(value)?),
            "$dynamicRef" => return Err(SchemaProblem::Unsupported { keyword: "$dynamicRef" }),
            "$recursiveRef" => return Err(SchemaProblem::Unsupported { keyword: "$recursiveRef" }),
            "not" | "if" | "then" | "else" => node.in_place.push(self.id_of(value)),
            "allOf" | "anyOf" | "oneOf" => node.in_place.extend(self.ids_in_list(value)),
            "dependentSchemas" | "dependencies" => node.in_place.extend(self.ids_in_map(value).into_values()),
            "properties" => node.properties = self.ids_in_map(value),
            "patternProperties" => {
                for pattern in value.as_object().into_iter().flat_map(Map::keys) {
                    node.name_states = node.name_states.saturating_add(pattern::states(pattern));
                    node.may_backtrack |= pattern::may_backtrack(pattern);
                }
                node.each_property.extend(self.ids_in_map(value).into_values());
            }
            "additionalProperties" => node.each_property.push(self.id_of(value)),
            "propertyNames" => node.each_name.push(self.id_of(value)),
            "unevaluatedProperties" => {
                node.marks_evaluated = true;
                node.each_property.push(self.id_of(value));
            }
            "unevaluatedItems" => {
                node.marks_evaluated = true;
                node.each_item.push(self.id_of(value));
            }
            "items" if value.is_array() => node.prefix_items = self.ids_in_list(value),
            "prefixItems" => node.prefix_items = self.ids_in_list(value),
            "items" | "additionalItems" | "contains" => node.each_item.push(self.id_of(value)),
            "uniqueItems" => node.compares_items = value == &Value::Bool(true),
            "pattern" => {
                let pattern = value.as_str().unwrap_or_default();
                node.text_states = pattern::states(pattern);
                node.may_backtrack |= pattern::may_backtrack(pattern);
            }
            "enum" | "const" | "required" | "dependentRequired" => {
                node.weight += comparison_cost(value) / CHEAP_UNITS_PER_STEP
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns the ids of the subschemas in a list.
    fn ids_in_list(&mut self, value: &'s Value) -> Vec<NodeId> {
        value.as_array().into_iter().flatten().map(|schema| self.id_of(schema)).collect()
    }

    /// Returns the ids of the subschemas in a map, by their names.
    fn ids_in_map(&mut self, value: &'s Value) -> BTreeMap<String, NodeId> {
        value.as_object().into_iter().flatten().map(|(name, schema)| (name.clone(), self.id_of(schema))).collect()
    }

    /// Follows a reference within the schema: `#`, a JSON Pointer or an anchor, with or without the schema's own `$id`
    /// in front.
    fn resolve_reference(&mut self, value: &Value) -> Result<NodeId, SchemaProblem> {
        let reference = value.as_str().unwrap_or_default();
        let own_id = self.root.get("$id").and_then(Value::as_str).map_or("", |id| id.trim_end_matches('#'));
        let (base, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        if !base.is_empty() && base != own_id {
            return Err(SchemaProblem::RemoteRef { reference: shorten(reference) });
        }
        let target = match percent_decoded(fragment) {
            Some(pointer) if pointer.is_empty() || pointer.starts_with('/') => self.root.pointer(&pointer),
            Some(anchor) => self.find_anchor(&anchor),
            None => None,
        };
        match target {
            Some(schema) => Ok(self.id_of(schema)),
            None => Err(SchemaProblem::UnknownRef { reference: shorten(reference) }),
        }
    }

    fn find_anchor(&mut self, anchor: &str) -> Option<&'s Value> {
        self.anchors.get_or_insert_with(|| collect_anchors(self.root)).get(anchor).copied()
    }
}

/// Returns the beginning of a reference, for an error.
fn shorten(reference: &str) -> String {
    reference[..reference.floor_char_boundary(super::MAX_MESSAGE_BYTES)].to_owned()
}

/// Decodes the escapes of RFC 3986; `None` if the result is not UTF-8. A `%` that starts no escape stays.
fn percent_decoded(fragment: &str) -> Option<String> {
    let mut decoded = Vec::with_capacity(fragment.len());
    let mut rest = fragment.as_bytes();
    while let [first, tail @ ..] = rest {
        let escape = tail.first_chunk().filter(|_| *first == b'%').and_then(|[high, low]| {
            let digit = |byte: u8| char::from(byte).to_digit(16);
            u8::try_from(digit(*high)? * 16 + digit(*low)?).ok()
        });
        decoded.push(escape.unwrap_or(*first));
        rest = if escape.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8(decoded).ok()
}

/// Returns all subschemas that have an anchor.
fn collect_anchors(root: &Value) -> HashMap<&str, &Value> {
    let (mut schemas_by_anchor, mut pending) = (HashMap::new(), vec![root]);
    while let Some(value) = pending.pop() {
        match value {
            Value::Object(map) => {
                for anchor in ["$anchor", "$dynamicAnchor"].iter().filter_map(|name| map.get(*name)?.as_str()) {
                    schemas_by_anchor.entry(anchor).or_insert(value);
                }
                pending.extend(map.values());
            }
            Value::Array(items) => pending.extend(items),
            _ => {}
        }
    }
    schemas_by_anchor
}

/// A walk through the unfolded schema. A node that is found again below itself is not entered again.
struct Unfolding<'g> {
    nodes: &'g [Node],
    /// The nodes above the current one. The flag of a node tells whether a step into the instance led to the node.
    path: Vec<(NodeId, bool)>,
    /// The number of nodes visited so far.
    count: u64,
}

impl Unfolding<'_> {
    /// Counts a node and all nodes below it. `steps_in` says whether a step into the instance leads to the node:
    /// whether its schema applies only to a part of the instance.
    ///
    /// A node may be below itself if a step into the instance is in between, because instances are finite. Without such
    /// a step, a validation would never end.
    fn visit(&mut self, id: NodeId, steps_in: bool) -> Result<(), SchemaProblem> {
        self.count += 1;
        if self.count > MAX_NODES {
            return Err(SchemaProblem::TooManyNodes);
        }
        if let Some(position) = self.path.iter().position(|&(above, _)| above == id) {
            let terminates = steps_in || self.path[position + 1..].iter().any(|&(_, steps_in)| steps_in);
            return if terminates { Ok(()) } else { Err(SchemaProblem::EndlessRef) };
        }
        if self.path.len() > MAX_DEPTH {
            return Err(SchemaProblem::TooDeep);
        }
        self.path.push((id, steps_in));
        let node = &self.nodes[id];
        for &next in &node.in_place {
            for _ in 0..node.in_place_times {
                self.visit(next, /* steps_in */ false)?;
            }
        }
        for next in node.for_parts() {
            self.visit(next, /* steps_in */ true)?;
        }
        self.path.pop();
        Ok(())
    }
}

impl Node {
    /// Returns the subschemas that apply to parts of the instance.
    fn for_parts(&self) -> impl Iterator<Item = NodeId> {
        let lists = [&self.each_property, &self.each_name, &self.prefix_items, &self.each_item];
        self.properties.values().chain(lists.into_iter().flatten()).copied()
    }
}

/// A validation that only counts evaluations, in the worst case: as if no failed check ended it early.
struct DryRun<'g> {
    nodes: &'g [Node],
    steps: u64,
    budget: u64,
}

impl DryRun<'_> {
    /// Counts the evaluations of a node; `None` as soon as the budget is exceeded.
    fn evaluate(&mut self, id: NodeId, instance: &Value, depth: usize) -> Option<()> {
        if depth > MAX_RECURSION {
            return None;
        }
        let node = &self.nodes[id];
        self.spend(node.weight)?;
        for &next in &node.in_place {
            for _ in 0..node.in_place_times {
                self.evaluate(next, instance, depth + 1)?;
            }
        }
        match instance {
            Value::String(text) if node.text_states > 0 => self.run_patterns(node, text.len(), node.text_states),
            Value::String(text) => self.spend(text.len() as u64 / CHEAP_UNITS_PER_STEP),
            Value::Array(items) => self.count_items(node, items, depth),
            Value::Object(map) => self.count_properties(node, map, depth),
            _ => Some(()),
        }
    }

    /// Counts the evaluations for the items of an array.
    fn count_items(&mut self, node: &Node, items: &[Value], depth: usize) -> Option<()> {
        for (position, item) in items.iter().enumerate() {
            for &next in node.prefix_items.get(position).into_iter().chain(&node.each_item) {
                self.evaluate(next, item, depth + 1)?;
            }
            if node.compares_items {
                let compared_items = items.len().min(MAX_COMPARED_ITEMS) as u64;
                self.spend(comparison_cost(item) * compared_items / CHEAP_UNITS_PER_STEP + UNIQUE_ITEM_STEPS)?;
            }
        }
        Some(())
    }

    /// Counts the evaluations for the properties of an object.
    fn count_properties(&mut self, node: &Node, map: &Map<String, Value>, depth: usize) -> Option<()> {
        for (name, value) in map {
            if node.name_states > 0 {
                self.run_patterns(node, name.len(), node.name_states)?;
            }
            for &next in node.properties.get(name).into_iter().chain(&node.each_property) {
                self.evaluate(next, value, depth + 1)?;
            }
            if !node.each_name.is_empty() {
                let name = Value::String(name.clone());
                for &next in &node.each_name {
                    self.evaluate(next, &name, depth + 1)?;
                }
            }
        }
        Some(())
    }

    /// Counts a run of the expressions of `node`, which have `states` states in all, over a text of `bytes` bytes.
    fn run_patterns(&mut self, node: &Node, bytes: usize, states: u64) -> Option<()> {
        let bytes_u64 = bytes as u64;
        if node.may_backtrack {
            if bytes > MAX_BACKTRACKING_BYTES {
                return None;
            }
            self.spend(BACKTRACKING_STEPS + bytes_u64 * bytes_u64 / BACKTRACKING_PAIRS_PER_STEP)?;
        }
        self.spend(bytes_u64.saturating_mul(states) / CHEAP_UNITS_PER_STEP)
    }

    /// Adds `steps` to the count; `None` if the budget is exceeded.
    fn spend(&mut self, steps: u64) -> Option<()> {
        self.steps = self.steps.saturating_add(steps);
        (self.steps <= self.budget).then_some(())
    }
}

/// Returns the cost of comparing a value, in compared values: one for the value and for each value in it, and one for
/// each [`CHEAP_UNITS_PER_STEP`] bytes of text.
fn comparison_cost(value: &Value) -> u64 {
    let text_cost = |text: &str| text.len() as u64 / CHEAP_UNITS_PER_STEP;
    1 + match value {
        Value::String(string) => text_cost(string),
        Value::Array(items) => items.iter().map(comparison_cost).sum(),
        Value::Object(map) => map.iter().map(|(name, value)| text_cost(name) + comparison_cost(value)).sum(),
        _ => 0,
    }
}
