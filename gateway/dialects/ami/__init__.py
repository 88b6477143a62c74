"""AMI (3forge's Realtime Messages): the codec of its text lines, both directions.

`lines` splits octets into lines, `codec` converts lines to the frozen `instructions` and back.
"Out" is what an application sends to a relay, "in" what a relay sends back, as in AMI's
documents. No I/O of any kind.

Sources, as the comments name them: the *interface document* ("AMI Backend Interface", which breaks off in
its object instruction), the vendor's current *pages* (its later form and the pages around it), and a *relay*,
which is one version of the vendor's relay as it was observed.
"""
