@real-kernel @istio-iptables
Feature: A pod can program its rules itself
  Where no plugin does it, an injected init container runs istio-iptables with the rights to change the pod's network. The
  plugin leaves such a pod alone.

  Background:
    Given pod "outside" outside the mesh
    And its addresses are IPv4 and IPv6
    And pod "cart" of the mesh
    And its own init container programs its rules

  @mutant:no-outbound-capture @mutant:no-inbound-capture @mutant:proxy-captured
  Scenario: Both directions are caught, the proxy is not
    Then TCP from "cart" to "outside" port 8080 passes 15001
    And TCP from "outside" to "cart" port 8080 passes 15006
    And TCP from "cart" to "outside" port 8080 as its proxy is direct
    And TCP from "outside" to "cart" port 15021 ends at 15021

  @ipv6 @mutant:no-ipv6
  Scenario: A pod of IPv6 alone
    Given its addresses are IPv6
    Then TCP from "cart" to "outside" port 8080 over IPv6 passes 15001
    And TCP from "outside" to "cart" port 8080 over IPv6 passes 15006

  @ipv6 @mutant:no-ipv6
  Scenario: Both families, as the mesh asks for
    Given its addresses are IPv4 and IPv6
    And its mesh's metadata has ISTIO_DUAL_STACK = "true"
    Then TCP from "cart" to "outside" port 8080 passes 15001
    And TCP from "cart" to "outside" port 8080 over IPv6 passes 15001
    And TCP from "outside" to "cart" port 8080 over IPv6 passes 15006

  @mutant:no-policy-routes @mutant:connmark-lost
  Scenario: TPROXY keeps the client's address
    Given its inbound traffic is caught by TPROXY
    Then TCP from "outside" to "cart" port 8080 passes 15006
    And TCP from "cart" to "outside" port 8080 passes 15001
    And its packets with mark 1337 are looked up in table 133 once, where every address is local

  @mutant:no-policy-routes
  Scenario: TPROXY with a mark and a table of the mesh's choice
    Given its inbound traffic is caught by TPROXY
    And its mesh's metadata has ISTIO_INBOUND_TPROXY_MARK = "4242"
    And its mesh's metadata has ISTIO_INBOUND_TPROXY_ROUTE_TABLE = "233"
    Then TCP from "outside" to "cart" port 8080 passes 15006
    And its packets with mark 4242 are looked up in table 233 once, where every address is local
    And its packets with mark 1337 are not looked up in table 133

  @mutant:invalid-not-dropped
  Scenario: Packets of no connection vanish, as the mesh asks for
    Given its mesh's metadata has INVALID_DROP = "true"
    Then a stray FIN from "outside" to "cart" port 8080 vanishes
    And TCP from "outside" to "cart" port 8080 passes 15006

  @mutant:owner-groups-ignored
  Scenario: Only some groups are caught, as the mesh asks for
    Given its mesh's metadata has ISTIO_OUTBOUND_OWNER_GROUPS = "2000"
    Then TCP from "cart" to "outside" port 8080 as group 2000 passes 15001
    And TCP from "cart" to "outside" port 8080 as group 2001 is direct

  @mutant:env-before-flags
  Scenario: What its arguments say outranks its environment
    Given its mesh's metadata has ISTIO_SERVICE_CIDR = "172.16.0.0/12"
    Then TCP from "cart" to "outside" port 8080 passes 15001

  @mutant:dry-run-applies
  Scenario: A dry run changes nothing
    Given its mesh's metadata has DRY_RUN = "true"
    Then its namespace holds no rule
    And TCP from "cart" to "outside" port 8080 is direct
