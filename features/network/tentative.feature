@real-kernel @ipv6
Feature: A pod's IPv6 address is tentative while it is set up
  The kernel looks for duplicates of an address for a second or two, and lists it meanwhile. Network plugins do not all wait for that.

  @mutant:tentative-unseen
  Scenario Outline: Its rules are those of its families: <families>
    Given pods' IPv6 addresses are tentative at first
    And pod "cart" of the mesh
    And its addresses are <families>
    Then it starts within 5 s
    And its rules are complete

    Examples:
      | families      |
      | IPv6          |
      | IPv6 and IPv4 |
