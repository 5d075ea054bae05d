// What the control API says, as the pages use it. The document of the API itself is /openapi.json.

declare namespace Api {
  interface Agent {
    id: string;
    running: boolean;
    api: string;
    mcp: string;
  }

  type Json = any;

  /** An entry of a configuration file, secrets hidden. */
  interface Entry {
    command?: string | null;
    args?: Json[] | null;
    cwd?: string | null;
    env?: Record<string, Json> | null;
    url?: string | null;
    headers?: Record<string, Json> | null;
    [other: string]: Json;
  }

  /** Who sends the request. */
  interface Profile {
    name: string;
    mcp: string;
    tools: string[];
  }

  /** What is used of a quota. */
  interface Quota {
    of: "tenant" | "member" | "profile";
    member: string | null;
    name: string | null;
    yours: boolean;
    setting: string;
    quantity: string;
    window: string;
    used: number;
    limit: number;
    free_at: string | null;
    renews_at: string | null;
  }

  interface Me {
    tenant: string;
    id: string;
    kind: "person" | "service";
    issuer: string;
    subject: string;
    name: string;
    groups: string[];
    role: string;
    rights: string[];
  }

  /** A server that the person who looks has added. */
  interface OwnServer {
    name: string;
    url: string;
    headers: string[];
  }

  /** A value that servers need of the person who looks. */
  interface MyCredential {
    name: string;
    servers: string[];
    given: boolean;
    given_at: string | null;
  }

  /** A member of the tenant of the person who looks. */
  interface Member {
    id: string;
    tenant: string;
    name: string;
    kind: "person" | "service";
    role: string;
    groups: string[];
    issuer: string;
    subject: string;
    you: boolean;
    tokens: number;
    sessions: number;
    clients: number;
    active_at: string | null;
  }

  /** A token, or the session of a browser. */
  interface MemberToken {
    id: string;
    purpose: "personal" | "browser";
    label: string;
    client: string | null;
    profile: string | null;
    made_at: string;
    ends_at: string | null;
    current: boolean;
  }

  /** A token that is shown once. */
  interface MadeToken {
    token: string;
    id: string;
    label: string;
    ends_at: string;
  }

  /** A client that acts in the name of a member. */
  interface MemberClient {
    id: string;
    name: string;
    client: string;
    sent_to: string | null;
    resource: string;
    scope: string;
    allowed_at: string | null;
    renewed_at: string | null;
    ends_at: string | null;
  }

  interface SigningIn {
    state: "waiting" | "done" | "failed";
    page: string | null;
    error: string | null;
    hint: string | null;
  }

  interface Server {
    name: string;
    state: string;
    error?: string | null;
    attempt?: number | null;
    attempts?: number | null;
    retry_in_ms?: number | null;
    retry_at?: string | null;
    how?: string | null;
    transport: string | null;
    era: "legacy" | "modern" | null;
    protocol_version?: string | null;
    server_info: { name: string; version?: string | null; title?: string | null } | null;
    scope: string;
    source: string | null;
    line?: number | null;
    enabled: boolean;
    own: boolean;
    editable: boolean;
    tools: number;
    tools_hidden: number;
    tokens: number;
    warnings: string[];
    quarantined: string[];
    tools_with_findings: number;
    instructions?: string | null;
    config: Entry | null;
    version: string;
  }

  interface Problem {
    severity: "error" | "warning";
    path?: string | null;
    line?: number | null;
    column?: number | null;
    entry?: string | null;
    message: string;
    hint?: string | null;
  }

  interface Edited {
    name: string;
    scope: string;
    path: string;
    created: boolean;
    dry_run: boolean;
    diff: string;
    warnings: Problem[];
    /** The secrets of a new entry that are stored. */
    secrets?: { what: string; name: string }[];
  }

  interface TestResult {
    server: string;
    ok: boolean;
    steps: { stage: string; ok: boolean; what: string }[];
  }

  interface LogLine {
    at: string;
    level: string;
    text: string;
  }

  interface ResourceContents {
    uri: string;
    mimeType?: string | null;
    text?: string | null;
    blob?: string | null;
  }

  interface Template {
    uriTemplate: string;
    name: string;
    title?: string | null;
    description?: string | null;
    mimeType?: string | null;
  }

  interface Resources {
    resources: { uri: string; name: string; title?: string | null; description?: string | null; mimeType?: string | null }[];
    templates: Template[];
  }

  interface Prompt {
    name: string;
    title?: string | null;
    description?: string | null;
    arguments?: { name: string; description?: string | null; required?: boolean | null }[];
  }

  interface PromptResult {
    description?: string | null;
    messages: { role: string; content: Block }[];
  }

  interface Annotations {
    read_only?: boolean | null;
    destructive?: boolean | null;
    idempotent?: boolean | null;
    open_world?: boolean | null;
  }

  interface Tool {
    name: string;
    server: string;
    tool: string;
    title?: string | null;
    description?: string | null;
    annotations: Annotations;
    tokens: number;
    finding_count: number;
    score?: number | null;
  }

  interface ToolDetail extends Tool {
    input_schema: Json;
    output_schema?: Json;
    definition: string;
    quarantined: string | null;
    findings: Finding[];
  }

  interface Tools {
    version: number;
    total: number;
    tools: Tool[];
  }

  /** A block of MCP's content, of any kind. */
  interface Block {
    type: string;
    text?: string;
    data?: string;
    mimeType?: string | null;
    uri?: string;
    name?: string;
    title?: string | null;
    description?: string | null;
    resource?: Partial<ResourceContents>;
  }

  interface Outcome {
    server: string;
    tool: string;
    is_error: boolean;
    text: string;
    content: Block[];
    structured?: Json;
    warnings: string[];
    truncated: boolean;
    artifacts: { handle: string; media_type: string; bytes: number }[];
    duration_ms: number;
  }

  interface Progress {
    progress: number;
    total?: number | null;
    message?: string | null;
  }

  interface Caller {
    way: "cli" | "daemon" | "gateway" | "agent" | "program";
    over: "http" | "stdio" | null;
    client: string | null;
    session: string | null;
    request: string | null;
    conversation: string | null;
    agent: string | null;
  }

  interface Question {
    id: string;
    caller?: Caller | null;
    findings?: Finding[];
    agent?: string | null;
    kind: "approval" | "form" | "url";
    server: string;
    tool?: string;
    arguments?: Json;
    why?: string | null;
    read_only?: boolean;
    destructive?: boolean;
    description?: string | null;
    lasting?: "once" | "session" | "always";
    message?: string;
    schema?: Json;
    url?: string;
    asked_at?: string;
    expires_at?: string | null;
  }

  interface StandingAnswer {
    server: string;
    tool: string;
    definition: string;
    given_for: "tool" | "server";
    way: string;
    lasting: "always" | "session";
    at: string | null;
    member: string | null;
  }

  interface Pending {
    name: string;
    project: string;
    source: string | null;
    line?: number | null;
    hash: string;
    config: Entry;
    points: string[];
    before: Entry | null;
  }

  interface Trusted {
    name: string;
    project: string;
    hash: string;
    approved_at: string | null;
  }

  interface Finding {
    kind: "instructions" | "hidden" | "look_alike" | "other_server";
    place: string;
    what: string;
  }

  interface QuarantinedTool {
    server: string;
    tool: string;
    cause: "changed" | "renamed" | "too_many";
    why: string;
    was: string | null;
    since: string | null;
    hash: string;
    definition: Entry;
    pinned: Entry | null;
    pinned_at: string | null;
    findings: Finding[];
  }

  interface Trust {
    pending: Pending[];
    refused: Pending[];
    trusted: Trusted[];
    quarantined: QuarantinedTool[];
  }

  interface Spent {
    input_tokens?: number;
    output_tokens?: number;
    cost_usd?: number | null;
  }

  interface Session {
    id: string;
    prefix: string;
    title: string | null;
    model: string | null;
    agent: string | null;
    owner?: { id: string; name: string };
    created_at: string;
    updated_at: string;
    messages: number;
    open_turn: boolean;
    spent: Spent | null;
  }

  interface AuditRow {
    seq: number;
    at: string | null;
    kind: string;
    who: string | null;
    tenant?: string;
    issuer?: string;
    subject?: string;
    name?: string;
    member?: string;
    member_tenant?: string;
    token?: string;
    credential?: string;
    client: string | null;
    over: string | null;
    session: string | null;
    conversation: string | null;
    agent: string | null;
    server: string | null;
    tool: string | null;
    decision: string | null;
    why: string | null;
    outcome: string | null;
    code: string | null;
    arguments: Json | null;
    arguments_sha256: string | null;
    arguments_bytes: number | null;
    duration_us: number | null;
    bytes: number | null;
    count: number | null;
    project: string | null;
    content: string | null;
    through: number | null;
    hash: string;
  }

  interface Audit {
    rows: AuditRow[];
    next: number | null;
  }

  interface ToolCall {
    id: string;
    name: string;
    input: Json;
  }

  interface Message {
    id: string;
    position: number;
    role: string;
    content: string;
    tool_calls?: ToolCall[] | null;
    tool_call_id?: string | null;
    is_error?: boolean;
    parts?: Block[];
    timestamp: string;
  }

  /** The model that would answer, or why none does. */
  interface Model {
    model: string | null;
    error?: { code?: string; message?: string; hint?: string | null } | null;
    providers: Provider[];
  }

  interface Provider {
    name: string;
    usable: boolean;
    key_variable: string | null;
    local: boolean;
    default_model: string | null;
  }

  /** How a turn ended. */
  interface TurnEnd {
    session: string | null;
    model?: string | null;
    end: string;
    reason?: string | null;
    rounds?: number;
    text?: string;
    spent?: Spent | null;
  }

  interface ConfigFile {
    scope: string;
    path: string;
    exists: boolean;
    text: string | null;
  }

  interface Config {
    files: ConfigFile[];
    problems: Problem[];
    settings?: Record<string, Json>;
    agents?: Json[];
    project?: string | null;
  }

  interface Offer {
    client: string;
    path: string;
    name: string;
    line?: number | null;
    hash: string;
    config: Entry;
    notes: string[];
    known: boolean;
  }

  interface Completed {
    server: string;
    tool: string;
    outcome: string;
    duration_ms: number;
    at: string;
  }

  interface Overview {
    version: string;
    uptime_s: number;
    servers: Record<string, number>;
    tools: number;
    tokens: number;
    tools_with_findings: number;
    calls: { total: number; errors: number; denied: number; per_minute: number };
    approvals: number;
    recent: Completed[];
  }

  /** An event as it comes through the stream. */
  interface LiveEvent {
    id: string | null;
    name: string;
    data: Json;
  }
}
