//! Who a client is and how its messages are kept from others: signatures, encryption, NTLM.
