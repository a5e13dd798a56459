// SPDX-License-Identifier: Apache-2.0
//! Numbers of the kernel's interface (`linux/netfilter/nf_tables.h`, `nfnetlink.h`, `nf_tables_compat.h`) that are used here.

/// Message types: sub-system in the high byte.
pub(crate) mod message {
    const NF_TABLES: u16 = 10 << 8;
    const NFT_COMPAT: u16 = 11 << 8;
    pub(crate) const BATCH_BEGIN: u16 = 0x10;
    pub(crate) const BATCH_END: u16 = 0x11;
    pub(crate) const NEW_TABLE: u16 = NF_TABLES;
    pub(crate) const GET_TABLE: u16 = NF_TABLES | 1;
    pub(crate) const DEL_TABLE: u16 = NF_TABLES | 2;
    pub(crate) const NEW_CHAIN: u16 = NF_TABLES | 3;
    pub(crate) const GET_CHAIN: u16 = NF_TABLES | 4;
    pub(crate) const DEL_CHAIN: u16 = NF_TABLES | 5;
    pub(crate) const NEW_RULE: u16 = NF_TABLES | 6;
    pub(crate) const GET_RULE: u16 = NF_TABLES | 7;
    pub(crate) const DEL_RULE: u16 = NF_TABLES | 8;
    pub(crate) const NEW_SET: u16 = NF_TABLES | 9;
    pub(crate) const NEW_SET_ELEMENT: u16 = NF_TABLES | 12;
    pub(crate) const GET_SET_ELEMENT: u16 = NF_TABLES | 13;
    pub(crate) const NEW_GEN: u16 = NF_TABLES | 15;
    pub(crate) const GET_GEN: u16 = NF_TABLES | 16;
    pub(crate) const COMPAT_GET: u16 = NFT_COMPAT;
}

/// `nfgenmsg.res_id` of a batch: the sub-system, in network order.
pub(crate) const BATCH_SUBSYSTEM: [u8; 2] = [0, 10];
/// Length of `struct nfgenmsg`.
pub(crate) const GENERIC_HEADER: usize = 4;

/// `nfgenmsg.nfgen_family`
pub(crate) mod family {
    pub(crate) const UNSPECIFIED: u8 = 0;
    pub(crate) const INET: u8 = 1;
    pub(crate) const IPV4: u8 = 2;
    pub(crate) const IPV6: u8 = 10;
}

/// Attribute types, by message or expression.
pub(crate) mod attribute {
    pub(crate) const BATCH_GENERATION: u16 = 1;
    pub(crate) const GENERATION_ID: u16 = 1;
    pub(crate) const LIST_ELEMENT: u16 = 1;

    pub(crate) const TABLE_NAME: u16 = 1;
    pub(crate) const TABLE_FLAGS: u16 = 2;

    pub(crate) const CHAIN_TABLE: u16 = 1;
    pub(crate) const CHAIN_HANDLE: u16 = 2;
    pub(crate) const CHAIN_NAME: u16 = 3;
    pub(crate) const CHAIN_HOOK: u16 = 4;
    pub(crate) const CHAIN_POLICY: u16 = 5;
    pub(crate) const CHAIN_TYPE: u16 = 7;
    pub(crate) const HOOK_NUMBER: u16 = 1;
    pub(crate) const HOOK_PRIORITY: u16 = 2;

    pub(crate) const RULE_TABLE: u16 = 1;
    pub(crate) const RULE_CHAIN: u16 = 2;
    pub(crate) const RULE_HANDLE: u16 = 3;
    pub(crate) const RULE_EXPRESSIONS: u16 = 4;
    pub(crate) const RULE_COMPAT: u16 = 5;
    pub(crate) const RULE_POSITION: u16 = 6;
    pub(crate) const RULE_USERDATA: u16 = 7;
    pub(crate) const RULE_COMPAT_PROTOCOL: u16 = 1;
    pub(crate) const RULE_COMPAT_FLAGS: u16 = 2;

    pub(crate) const EXPRESSION_NAME: u16 = 1;
    pub(crate) const EXPRESSION_DATA: u16 = 2;

    pub(crate) const META_DESTINATION: u16 = 1;
    pub(crate) const META_KEY: u16 = 2;
    pub(crate) const META_SOURCE: u16 = 3;

    pub(crate) const CT_DESTINATION: u16 = 1;
    pub(crate) const CT_KEY: u16 = 2;
    pub(crate) const CT_SOURCE: u16 = 4;

    pub(crate) const LOOKUP_SET: u16 = 1;
    pub(crate) const LOOKUP_SOURCE: u16 = 2;
    pub(crate) const LOOKUP_SET_ID: u16 = 4;
    pub(crate) const LOOKUP_FLAGS: u16 = 5;

    pub(crate) const REDIRECT_MINIMUM: u16 = 1;
    pub(crate) const REDIRECT_FLAGS: u16 = 3;

    pub(crate) const TPROXY_FAMILY: u16 = 1;
    pub(crate) const TPROXY_PORT: u16 = 3;

    pub(crate) const SET_TABLE: u16 = 1;
    pub(crate) const SET_NAME: u16 = 2;
    pub(crate) const SET_FLAGS: u16 = 3;
    pub(crate) const SET_KEY_TYPE: u16 = 4;
    pub(crate) const SET_KEY_LENGTH: u16 = 5;
    pub(crate) const SET_DESCRIPTION: u16 = 9;
    pub(crate) const SET_ID: u16 = 10;
    pub(crate) const SET_USERDATA: u16 = 13;
    pub(crate) const SET_DESCRIPTION_SIZE: u16 = 1;
    pub(crate) const ELEMENTS_TABLE: u16 = 1;
    pub(crate) const ELEMENTS_SET: u16 = 2;
    pub(crate) const ELEMENTS: u16 = 3;
    pub(crate) const ELEMENTS_SET_ID: u16 = 4;
    pub(crate) const ELEMENT_KEY: u16 = 1;

    pub(crate) const COMPARE_SOURCE: u16 = 1;
    pub(crate) const COMPARE_OPERATION: u16 = 2;
    pub(crate) const COMPARE_DATA: u16 = 3;

    pub(crate) const RANGE_SOURCE: u16 = 1;
    pub(crate) const RANGE_OPERATION: u16 = 2;
    pub(crate) const RANGE_FROM: u16 = 3;
    pub(crate) const RANGE_TO: u16 = 4;

    pub(crate) const PAYLOAD_DESTINATION: u16 = 1;
    pub(crate) const PAYLOAD_BASE: u16 = 2;
    pub(crate) const PAYLOAD_OFFSET: u16 = 3;
    pub(crate) const PAYLOAD_LENGTH: u16 = 4;

    pub(crate) const BITWISE_SOURCE: u16 = 1;
    pub(crate) const BITWISE_DESTINATION: u16 = 2;
    pub(crate) const BITWISE_LENGTH: u16 = 3;
    pub(crate) const BITWISE_MASK: u16 = 4;
    pub(crate) const BITWISE_XOR: u16 = 5;

    pub(crate) const COUNTER_BYTES: u16 = 1;
    pub(crate) const COUNTER_PACKETS: u16 = 2;

    pub(crate) const IMMEDIATE_DESTINATION: u16 = 1;
    pub(crate) const IMMEDIATE_DATA: u16 = 2;
    pub(crate) const DATA_VALUE: u16 = 1;
    pub(crate) const DATA_VERDICT: u16 = 2;
    pub(crate) const VERDICT_CODE: u16 = 1;
    pub(crate) const VERDICT_CHAIN: u16 = 2;

    pub(crate) const EXTENSION_NAME: u16 = 1;
    pub(crate) const EXTENSION_REVISION: u16 = 2;
    pub(crate) const EXTENSION_INFO: u16 = 3;

    pub(crate) const COMPAT_NAME: u16 = 1;
    pub(crate) const COMPAT_REVISION: u16 = 2;
    pub(crate) const COMPAT_TYPE: u16 = 3;
}

/// `NFT_META_*`
pub(crate) mod meta {
    pub(crate) const MARK: u32 = 3;
    pub(crate) const IN_INTERFACE: u32 = 6;
    pub(crate) const OUT_INTERFACE: u32 = 7;
    pub(crate) const USER: u32 = 10;
    pub(crate) const GROUP: u32 = 11;
    pub(crate) const FAMILY: u32 = 15;
    pub(crate) const PROTOCOL: u32 = 16;
}

/// `NFT_CT_*`
pub(crate) mod ct {
    pub(crate) const STATE: u32 = 0;
    pub(crate) const MARK: u32 = 3;
    pub(crate) const ZONE: u32 = 17;
}

/// `NFT_LOOKUP_F_INV`
pub(crate) const LOOKUP_INVERTED: u32 = 1;
/// `NF_NAT_RANGE_PROTO_SPECIFIED`
pub(crate) const NAT_RANGE_PORT: u32 = 2;
/// `NFT_SET_ANONYMOUS | NFT_SET_CONSTANT`
pub(crate) const SET_ANONYMOUS: u32 = 3;

/// `NFT_CMP_*`, and the first two for `NFT_RANGE_*`
pub(crate) mod operation {
    pub(crate) const EQUAL: u32 = 0;
    pub(crate) const NOT_EQUAL: u32 = 1;
    pub(crate) const LESS: u32 = 2;
    pub(crate) const AT_MOST: u32 = 3;
    pub(crate) const GREATER: u32 = 4;
    pub(crate) const AT_LEAST: u32 = 5;
}

/// `NFT_PAYLOAD_*_HEADER`
pub(crate) mod header {
    pub(crate) const NETWORK: u32 = 1;
    pub(crate) const TRANSPORT: u32 = 2;
}

/// Verdicts: those of netfilter, then `NFT_JUMP`, `NFT_GOTO`, `NFT_RETURN`
pub(crate) mod verdict {
    pub(crate) const DROP: i32 = 0;
    pub(crate) const ACCEPT: i32 = 1;
    pub(crate) const JUMP: i32 = -3;
    pub(crate) const GOTO: i32 = -4;
    pub(crate) const RETURN: i32 = -5;
}

/// `NFT_REG_VERDICT`
pub(crate) const VERDICT_REGISTER: u32 = 0;
/// `NFT_REG_1`, the only one that iptables uses, and nft for rules like ours
pub(crate) const REGISTER: u32 = 1;
/// `NFT_TABLE_F_DORMANT`
pub(crate) const TABLE_DORMANT: u32 = 1;
/// `NFT_RULE_MAXEXPRS`
pub(crate) const MAX_EXPRESSIONS: usize = 128;
/// `ERESTART`: the generation is not the one that the batch names.
pub(crate) const ERESTART: i32 = 85;
/// The generation of a namespace whose nf_tables nobody touched.
pub(crate) const UNTOUCHED: u32 = 1;
