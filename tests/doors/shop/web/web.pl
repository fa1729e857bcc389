use IO::Socket::INET; $| = 1;
my $s = IO::Socket::INET->new(LocalAddr => "0.0.0.0", LocalPort => 8080, Listen => 9, ReuseAddr => 1) or die $!;
while (my $c = $s->accept) {
  while (defined(my $h = <$c>)) { last if $h =~ /^\r?\n$/ }
  my $db = IO::Socket::INET->new($ENV{DB}) or die "no db: $!";
  print $db "$ENV{DB_PASSWORD}\n";
  print $c "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", <$db>; close $c;
}
