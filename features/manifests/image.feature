@install-cni @millrace
Feature: Nobody guesses the agent's image
  There is none of ours on a public registry, and a name there could be taken by anybody: what runs as root on every node is named by whoever
  installs it, and with a tag or a digest.

  @mutant:image-guessed
  Scenario Outline: With <given> nothing is rendered, and it is told what to set
    When manifests are rendered with "<arguments>"
    Then it ends with exit code 1 and says "<told>"
    And nothing is rendered

    Examples:
      | given             | arguments                                  | told                                                                                                          |
      | nothing           |                                            | hub: "": names no image: set hub and tag (or global.hub and global.tag) to where you keep the image, or image |
      | a hub alone       | --set hub=registry.example.com/mesh        | tag: "": names no image: set tag (or global.tag), or image to a whole reference with its digest               |
      | no tag, no digest | --image registry.example.com/mesh/cni      | image: "registry.example.com/mesh/cni": names no image: it has no tag and no digest                           |

  @mutant:image-by-word-lost
  Scenario: The command line names it for documents that cannot
    Given a mesh's document:
      """
      apiVersion: asm.alauda.io/v1alpha1
      kind: ServiceMesh
      spec:
        componentConfig: [{name: istioCni, group: istio, cni: {}}]
      """
    When manifests are rendered with "--image registry.example.com/mesh/install-cni@sha256:00"
    Then DaemonSet "istio-cni-node" has spec/template/spec/containers/install-cni/image = "registry.example.com/mesh/install-cni@sha256:00"
