use IO::Socket::INET; $| = 1;
my $s = IO::Socket::INET->new(LocalAddr => "0.0.0.0", LocalPort => $ARGV[0], Listen => 9, ReuseAddr => 1) or die $!;
while (my $c = $s->accept) { my $p = <$c>; chomp $p; open(my $f, "<", "/var/lib/db/made"); print $c ($p eq $ENV{DB_PASSWORD} ? <$f> : "no\n"); close $c; }
