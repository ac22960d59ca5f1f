// Command rwsink is the receiver.
package main

func main() {}
