"""One search by many hosts, which know nothing of each other but what lies where they meet.

storage  opens the place where they meet, and tries again what it refuses for the moment
journal  that place in a folder: one file, its lock, and what a killed or stopped host leaves of them
leases   who was not heard of for too long, by no clock but one's own
claims   who does what: each thing once, by the first that claims it
share    the search, and the groups of hosts that are alike
trials   the trials of a group, as records; others: what one host knows of those of others
"""
