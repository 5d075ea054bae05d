/** As much of marked as the dashboard uses. */
export class Lexer {
  constructor(options?: { gfm?: boolean });
  lex(source: string): any[];
  blockTokens(source: string, tokens?: any[], clipped?: boolean): any[];
  inlineTokens(source: string, tokens?: any[]): any[];
}
