# Three small functions for text, as scripts need them.

# trim TEXT: without the spaces at both ends
trim() {
    text=$1
    while [ "${text# }" != "$text" ]; do text=${text# }; done
    printf '%s' "$text"
}

# repeat TEXT COUNT: so many times
repeat() {
    text=''
    count=$2
    while [ "$count" -gt 0 ]; do text="$text$1" count=$((count - 1)); done
    printf '%s' "$text"
}

# pad TEXT WIDTH: filled up with dots
pad() {
    text=$1
    while [ "${#text}" -le "$2" ]; do text="$text."; done
    printf '%s' "$text"
}
