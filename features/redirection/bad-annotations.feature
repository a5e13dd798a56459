@real-kernel
Feature: An annotation that cannot be obeyed keeps the pod from starting
  Half obeyed, it would let traffic past the proxy that somebody relies on.

  @mutant:bad-annotation-accepted
  Scenario Outline: <annotation> "<value>"
    Given pod "cart" of the mesh
    And its annotation "<annotation>" is "<value>"
    Then it does not start: code 999, "<reason>"

    Examples:
      | annotation                                       | value               | reason                                             |
      | sidecar.istio.io/interceptionMode                | NONE                | interceptionMode invalid: NONE                     |
      | sidecar.istio.io/interceptionMode                | redirect            | interceptionMode invalid: redirect                 |
      | traffic.sidecar.istio.io/includeOutboundIPRanges | 10.0.0.0            | failed parsing cidr '10.0.0.0'                     |
      | traffic.sidecar.istio.io/includeOutboundIPRanges | 10.0.0.0/8, ::/0    | failed parsing cidr ' ::/0'                        |
      | traffic.sidecar.istio.io/includeOutboundIPRanges | 10.0.0.0/33         | failed parsing cidr '10.0.0.0/33'                  |
      | traffic.sidecar.istio.io/excludeOutboundIPRanges | *                   | failed parsing cidr '*'                            |
      | traffic.sidecar.istio.io/excludeOutboundIPRanges | example.com         | failed parsing cidr 'example.com'                  |
      | traffic.sidecar.istio.io/includeInboundPorts     | 80-90               | failed parsing port                                |
      | traffic.sidecar.istio.io/includeInboundPorts     | http                | failed parsing port                                |
      | traffic.sidecar.istio.io/excludeInboundPorts     | 80,                 | failed parsing port                                |
      | traffic.sidecar.istio.io/excludeInboundPorts     | 65536               | failed parsing port                                |
      | traffic.sidecar.istio.io/includeOutboundPorts    | -1                  | failed parsing port                                |
      | traffic.sidecar.istio.io/excludeOutboundPorts    | 80;90               | failed parsing port                                |
      | traffic.sidecar.istio.io/excludeInterfaces       | net1,,net2          | empty interface name                               |
      | traffic.sidecar.istio.io/excludeInterfaces       | averyveryverylong0  | too long (max 15 chars)                            |
      | istio.io/reroute-virtual-interfaces              | net1+               | contains invalid characters                        |
      | traffic.sidecar.istio.io/kubevirtInterfaces      | 0net                | contains invalid characters                        |

  @install-cni @millrace @mutant:none-refused
  Scenario: A pod without interception starts where the node's settings skip such pods
    Given the node agent's setting "MILLRACE_INTERCEPTION_MODE_NONE" is "skip"
    And the node agent is ready
    And pod "outside" outside the mesh
    And pod "cart" of the mesh
    And its annotation "sidecar.istio.io/interceptionMode" is "NONE"
    When "cart" starts
    Then it runs
    And TCP from "cart" to "outside" port 8080 is direct

  @mutant:bad-annotation-accepted
  Scenario Outline: <annotation> with <count> elements is longer than any that is meant
    Each element is rules that every start of the pod writes, and that every connection of it walks through.

    Given pod "cart" of the mesh
    And its annotation "<annotation>" lists <count> <elements>
    Then it does not start: code 999, "<reason>"

    Examples:
      | annotation                                       | count | elements   | reason                                                                                 |
      | traffic.sidecar.istio.io/excludeOutboundPorts    | 40000 | ports      | excludeOutboundPorts; annotationFound = true: 40000 elements, at most 1024 are accepted |
      | traffic.sidecar.istio.io/excludeInboundPorts     | 1025  | ports      | excludeInboundPorts; annotationFound = true: 1025 elements, at most 1024 are accepted   |
      | traffic.sidecar.istio.io/includeOutboundIPRanges | 1025  | ranges     | includeIPCidrs; annotationFound = true: 1025 elements, at most 1024 are accepted        |
      | traffic.sidecar.istio.io/excludeInterfaces       | 65    | interfaces | excludeInterfaces; annotationFound = true: 65 elements, at most 64 are accepted         |

  @mutant:no-outbound-capture
  Scenario: The longest list that is accepted
    Given pod "outside" outside the mesh
    And pod "cart" of the mesh
    And its annotation "traffic.sidecar.istio.io/excludeOutboundPorts" lists 1024 ports
    Then TCP from "cart" to "outside" port 443 is direct
    And TCP from "cart" to "outside" port 8080 passes 15001

  @mutant:bad-annotation-accepted
  Scenario: Once mended, the pod starts as if nothing had been
    Given pod "outside" outside the mesh
    And pod "cart" of the mesh
    And its annotation "traffic.sidecar.istio.io/excludeOutboundPorts" is "80;90"
    Then it does not start: code 999, "failed parsing port"
    When it is deleted
    Given its annotation "traffic.sidecar.istio.io/excludeOutboundPorts" is "80,90"
    Then it runs
    And TCP from "cart" to "outside" port 80 is direct
    And TCP from "cart" to "outside" port 8080 passes 15001
