@real-kernel
Feature: Traffic between nodes and to the outside is redirected like any other
  Pods of a mesh are on many nodes, and call hosts outside of the cluster. The proxy must learn where a packet was addressed to, whatever the way that
  follows: routes between nodes, the node's masquerading, the translation of a service's address.

  @mutant:no-inbound-capture
  Scenario: Two pods of the mesh on two nodes, both proxies on the way
    Given 2 nodes
    And pod "cart" of the mesh
    And it is on node "node-1"
    And pod "web" of the mesh
    And it is on node "node-2"
    Then TCP from "cart" to "web" port 8080 passes 15001 and 15006
    And TCP from "web" to "cart" port 8080 passes 15001 and 15006
    And the pods' hostIPs are addresses of different nodes

  @ipv6 @mutant:no-ipv6
  Scenario: The same over IPv6
    Given 2 nodes
    And pod "cart" of the mesh
    And its addresses are IPv6
    And it is on node "node-1"
    And pod "web" of the mesh
    And its addresses are IPv6
    And it is on node "node-2"
    Then TCP from "cart" to "web" port 8080 over IPv6 passes 15001 and 15006

  @mutant:no-inbound-capture
  Scenario: TPROXY shows the app the pod of the other node
    Given 2 nodes
    And pod "outside" outside the mesh
    And it is on node "node-2"
    And pod "cart" of the mesh
    And its inbound traffic is caught by TPROXY
    And it is on node "node-1"
    Then TCP from "outside" to "cart" port 8080 passes 15006

  @mutant:no-outbound-capture
  Scenario: A host outside of the cluster is reached through the proxy, and sees the node
    Given a host outside of the cluster
    And pod "cart" of the mesh
    Then TCP from "cart" to the host outside port 8080 passes 15001
    And UDP from "cart" to the host outside port 8080 is direct

  @mutant:no-outbound-capture
  Scenario: A host that knows where pods are sees the pod
    Given a host outside of the cluster that knows where pods are
    And pod "cart" of the mesh
    Then TCP from "cart" to the host outside port 443 passes 15001

  @mutant:no-outbound-capture
  Scenario: A service's address is what the proxy learns, and its node translates
    Given a host outside of the cluster
    And pod "api" outside the mesh
    And service "api" of port 80 is pod "api" at port 8080
    And pod "cart" of the mesh
    Then TCP from "cart" to service "api" port 80 passes 15001
    And TCP from "cart" to service "api" port 80 as its proxy is direct
