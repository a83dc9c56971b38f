// What the test serves: a small shop with everything that a page can show, and as many routes beside it as are asked for.

import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import path from 'node:path';

const PATHS_OF_HOST = 20;
const CERTIFICATE = fileURLToPath(new URL('../../examples/certificate.sh', import.meta.url));

// `ports`: of the backends web, next and gone (where nobody listens), and of the Gateway's listeners http and tcp.
export function write(folder, routes, ports) {
  writeFileSync(path.join(folder, 'shop.yaml'), shop(ports));
  writeFileSync(path.join(folder, 'tls.yaml'), execFileSync(CERTIFICATE, ['shop/shop-tls', 'shop.example.com'], { encoding: 'utf8' }));
  const hosts = Math.ceil(routes / PATHS_OF_HOST);
  const paths = Array.from({ length: PATHS_OF_HOST }, (_, at) =>
    `{path: /p${at}, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}`).join(', ');
  const ingress = (at) => `---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: tenant-${at}, namespace: tenants}
spec: {ingressClassName: fairway, rules: [{host: tenant-${at}.example.com, http: {paths: [${paths}]}}]}
`;
  const web = service('tenants', 'web') + slice('tenants', 'web', 'web-1', ports.web);
  writeFileSync(path.join(folder, 'tenants.yaml'), web + Array.from({ length: hosts }, (_, at) => ingress(at)).join(''));
}

const service = (namespace, name) => `---
apiVersion: v1
kind: Service
metadata: {name: ${name}, namespace: ${namespace}}
spec: {ports: [{name: http, port: 80}]}
`;

const slice = (namespace, service, pod, port) => `---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: ${pod}, namespace: ${namespace}, labels: {kubernetes.io/service-name: ${service}}}
addressType: IPv4
ports: [{name: http, port: ${port}}]
endpoints: [{addresses: [127.0.0.1], targetRef: {kind: Pod, namespace: ${namespace}, name: ${pod}}}]
`;

const shop = (ports) => `
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: fairway}
spec: {controller: fairway.dev/ingress-controller}
${service('shop', 'web')}${slice('shop', 'web', 'web-1', ports.web)}${slice('shop', 'web', 'web-2', ports.gone)}
${service('shop', 'next')}${slice('shop', 'next', 'next-1', ports.next)}
${service('shop', 'broken')}${slice('shop', 'broken', 'broken-1', ports.gone)}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: shop
  namespace: shop
  annotations:
    nginx.ingress.kubernetes.io/enable-cors: "true"
    nginx.ingress.kubernetes.io/ssl-redirect: "false"
    nginx.ingress.kubernetes.io/proxy-read-timeout: "30"
    nginx.ingress.kubernetes.io/limit-rps: "1000"
    fairway.dev/request-headers: '{"set": {"X-Team": "shop"}}'
spec:
  ingressClassName: fairway
  tls: [{hosts: [shop.example.com], secretName: shop-tls}]
  rules: [{host: shop.example.com, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {name: http}}}}]}}]
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: canary
  namespace: shop
  annotations: {nginx.ingress.kubernetes.io/canary: "true", nginx.ingress.kubernetes.io/canary-weight: "20"}
spec:
  ingressClassName: fairway
  rules: [{host: shop.example.com, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: next, port: {number: 80}}}}]}}]
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: billing
  namespace: shop
  annotations: {nginx.ingress.kubernetes.io/proxy-read-timeout: "soon"}
spec:
  ingressClassName: fairway
  rules:
  - host: billing.example.com
    http:
      paths:
      - {path: /, pathType: Prefix, backend: {service: {name: broken, port: {number: 80}}}}
      - {path: /invoices, pathType: Prefix, backend: {service: {name: invoices, port: {number: 80}}}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: fairway}
spec: {controllerName: fairway.dev/gateway-controller}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: edge, namespace: shop}
spec:
  gatewayClassName: fairway
  listeners:
  - {name: http, port: ${ports.gateway}, protocol: HTTP}
  - {name: database, port: ${ports.tcp}, protocol: TCP}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: blog, namespace: shop}
spec:
  parentRefs: [{name: edge, sectionName: http}]
  hostnames: [blog.example.com]
  rules: [{backendRefs: [{name: web, port: 80, weight: 9}, {name: next, port: 80, weight: 1}]}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: wiki, namespace: shop}
spec:
  parentRefs: [{name: edge, sectionName: http}]
  hostnames: [wiki.example.com]
  rules: [{backendRefs: [{name: nobody, port: 80}]}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: TCPRoute
metadata: {name: database, namespace: shop}
spec:
  parentRefs: [{name: edge, sectionName: database}]
  rules: [{backendRefs: [{name: web, port: 80}]}]
`;
