// An OpenID Connect provider (the certified `oidc-provider`) with a login form, for the scenarios with logins. It keeps its sessions
// in memory: a process that is started again knows none of them. It never checks passwords: whoever names an account is that account.
//
//   node server.js CONFIGURATION.json
//
// The file has: issuer, address, port, client (metadata of the one client), accounts (claims by the name that the form takes); and may have
// more (further metadata of the client), ttl (lifetimes in seconds), toClients (the address at which the hosts of clients are, whose
// certificate is not verified).
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { request as send } from 'node:https';
import Provider from 'oidc-provider';

const { issuer, address, port, client, accounts, more, ttl, toClients } = JSON.parse(readFileSync(process.argv[2], 'utf8'));

const provider = new Provider(issuer, {
  clients: [{ ...client, ...more }],
  claims: { openid: ['sub'], email: ['email', 'email_verified'], groups: ['groups'] },
  // The claims belong into the id_token, where oauth2-proxy looks for them first.
  conformIdTokenClaims: false,
  cookies: { keys: ['only-for-tests'] },
  features: { devInteractions: { enabled: false }, rpInitiatedLogout: { enabled: true, logoutSource }, backchannelLogout: { enabled: true } },
  ...(toClients && { fetch: toClient }),
  findAccount: (_, name) => accounts[name] && { accountId: name, claims: () => ({ sub: name, ...accounts[name] }) },
  interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
  issueRefreshToken: (_, of) => of.grantTypeAllowed('refresh_token'),
  loadExistingGrant: grant,
  pkce: { required: () => true },
  ttl: { AccessToken: 3600, AuthorizationCode: 60, Grant: 3600, IdToken: 3600, Interaction: 600, RefreshToken: 3600, Session: 3600, ...ttl },
});
// Fairway ends TLS before it.
provider.proxy = true;
provider.on('server_error', (_, error) => console.error('server_error', error));

// toClient sends a request to a client, as fetch would, where no DNS knows its host.
function toClient(url, { method, headers, body }) {
  const { hostname, pathname } = new URL(url);
  return new Promise((resolve, reject) => {
    const asked = send({ host: toClients.address, servername: hostname, path: pathname, method, rejectUnauthorized: false,
      headers: { ...Object.fromEntries(new Headers(headers)), host: hostname } }, async (response) => {
      let text = '';
      for await (const part of response) text += part;
      resolve(new Response(text || null, { status: response.statusCode }));
    });
    asked.on('error', reject);
    asked.end(body?.toString());
  });
}

// grant gives the client everything it asks for, so that there is no page for consent.
async function grant(ctx) {
  const { Grant } = ctx.oidc.provider;
  const given = new Grant({ clientId: ctx.oidc.client.clientId, accountId: ctx.oidc.session.accountId });
  given.addOIDCScope([...ctx.oidc.requestParamScopes].join(' '));
  await given.save();
  return given;
}

const page = (title, body) => `<!doctype html><title>${title}</title>
<style>body{font:18px sans-serif;margin:4em auto;width:22em}input,button{font:inherit;padding:.4em;margin:.4em 0}</style>
<h1>${title}</h1>${body}`;

function logoutSource(ctx, form) {
  ctx.body = page('Log out?', `${form}<button id="yes" form="op.logoutForm" name="logout" value="yes">Yes</button>`);
}

async function interaction(request, response) {
  if (request.method !== 'POST') {
    const { params } = await provider.interactionDetails(request, response);
    response.setHeader('content-type', 'text/html; charset=utf-8');
    response.end(page('Log in', `<p>to ${params.client_id}</p>
<form method="post"><input id="account" name="account" autofocus> <button id="login">Log in</button></form>`));
    return;
  }
  let body = '';
  for await (const part of request) body += part;
  const accountId = new URLSearchParams(body).get('account');
  const result = accounts[accountId] ? { login: { accountId } } : { error: 'access_denied', error_description: 'no such account' };
  await provider.interactionFinished(request, response, result);
}

const serve = provider.callback();
createServer((request, response) => {
  if (!request.url.startsWith('/interaction/')) return serve(request, response);
  return interaction(request, response).catch((error) => {
    console.error(error);
    response.writeHead(400, { 'content-type': 'text/html' }).end(page('This login is over', '<p>Begin again where you came from.</p>'));
  });
}).listen(port, address, () => console.log(`oidc-provider: ${issuer} is at ${address}:${port}`));
