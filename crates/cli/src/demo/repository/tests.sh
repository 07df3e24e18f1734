# sh tests.sh [NAME...]: tests these functions of text.sh, or all of them.
. ./text.sh
failed=0

check() {
    if [ "$2" = "$3" ]; then
        echo "ok    $1"
    else
        echo "FAIL  $1: expected '$2', found '$3'"
        failed=1
    fi
}

for name in ${*:-trim repeat pad}; do
    case $name in
        trim) check trim 'a b' "$(trim '  a b ')" ;;
        repeat) check repeat 'ababab' "$(repeat ab 3)" ;;
        pad) check pad 'ab...' "$(pad ab 5)" ;;
    esac
done
exit $failed
