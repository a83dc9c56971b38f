"""What sslyze finds at HOST:PORT for a server name, as JSON: protocols, groups, weaknesses, and what keeps the server from
Mozilla's "intermediate" configuration (https://ssl-config.mozilla.org), its certificate left out."""

import json
import sys
from importlib.metadata import version

from sslyze import Scanner, ServerNetworkConfiguration, ServerNetworkLocation, ServerScanRequest
from sslyze.mozilla_tls_profile.tls_config_checker import (
    MozillaTlsConfiguration,
    ServerNotCompliantWithTlsConfiguration,
    TlsConfigurationEnum,
    check_server_against_tls_configuration,
)

OF_THE_CERTIFICATE = ("certificate", "maximum_certificate_lifespan")


def differences(result, profile):
    """What is otherwise than in the configuration, by what was looked at."""
    try:
        check_server_against_tls_configuration(result, MozillaTlsConfiguration.get(profile))
    except ServerNotCompliantWithTlsConfiguration as refused:
        issues = refused.issues
        return {what: said for what, said in issues.items() if not what.startswith(OF_THE_CERTIFICATE)}
    return {}


def main():
    host, _, port = sys.argv[1].rpartition(":")
    location = ServerNetworkLocation(hostname=sys.argv[2], ip_address=host, port=int(port))
    scanner = Scanner()
    scanner.queue_scans([ServerScanRequest(location, ServerNetworkConfiguration(sys.argv[2]))])
    (result,) = scanner.get_results()
    if result.scan_result is None:
        sys.exit(f"sslyze cannot reach {sys.argv[1]}: {result.connectivity_error_trace}")
    scan = result.scan_result
    by_version = {
        "SSL 2.0": scan.ssl_2_0_cipher_suites,
        "SSL 3.0": scan.ssl_3_0_cipher_suites,
        "TLS 1.0": scan.tls_1_0_cipher_suites,
        "TLS 1.1": scan.tls_1_1_cipher_suites,
        "TLS 1.2": scan.tls_1_2_cipher_suites,
        "TLS 1.3": scan.tls_1_3_cipher_suites,
    }
    suites = {
        name: [suite.cipher_suite.name for suite in one.result.accepted_cipher_suites]
        for name, one in by_version.items()
    }
    renegotiation = scan.session_renegotiation.result
    weaknesses = {
        "compression": scan.tls_compression.result.supports_compression,
        "CCS injection": scan.openssl_ccs_injection.result.is_vulnerable_to_ccs_injection,
        "Heartbleed": scan.heartbleed.result.is_vulnerable_to_heartbleed,
        "ROBOT": not scan.robot.result.robot_result.name.startswith("NOT_VULNERABLE"),
        "renegotiation by clients": renegotiation.is_vulnerable_to_client_renegotiation_dos,
        "insecure renegotiation": not renegotiation.supports_secure_renegotiation,
        "no extended master secret": not scan.tls_extended_master_secret.result.supports_ems_extension,
    }
    found = {
        "version": version("sslyze"),
        "suites": {name: accepted for name, accepted in suites.items() if accepted},
        "groups": [curve.name for curve in scan.elliptic_curves.result.supported_curves],
        "weaknesses": [name for name, is_weak in weaknesses.items() if is_weak],
        "beside_mozilla": differences(result, TlsConfigurationEnum.MOZILLA_INTERMEDIATE),
    }
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
