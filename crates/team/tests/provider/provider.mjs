// A certified OpenID provider with one client, `toolrack`. Its people sign in with an address and any password.
//
//     node provider.mjs SECRET REDIRECT_URI
//
// Writes its issuer on a line, and ends when its standard input does.
import http from 'node:http';
import Provider from 'oidc-provider';

const [secret, redirectUri] = process.argv.slice(2);
const server = http.createServer();
server.listen(0, '127.0.0.1', () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    clients: [{
      client_id: 'toolrack',
      client_secret: secret,
      redirect_uris: [redirectUri],
      grant_types: ['authorization_code'],
      response_types: ['code'],
    }],
    claims: { openid: ['sub'], profile: ['name', 'groups'], email: ['email', 'email_verified'] },
    cookies: { keys: ['a key of a test'] },
    pkce: { required: () => true },
    findAccount: (_context, id) => ({
      accountId: id,
      claims: () => ({ sub: id, name: id.split('@')[0], email: id, email_verified: true, groups: ['eng'] }),
    }),
  });
  server.on('request', provider.callback());
  console.log(issuer);
});
process.stdin.resume();
process.stdin.on('end', () => process.exit(0));
