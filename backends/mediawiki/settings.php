<?php
// Comes after what the installer wrote.

// Under whatever address the wiki is asked, that is its address: the port is known only once the container runs.
$wgServer = WebRequest::detectServer();
$wgSecretKey = getenv( 'WIKI_SECRET_KEY' ) ?: 'the image is being built';
$wgUploadDirectory = '/data/images';
$wgEnableUploads = true;
$wgFileExtensions[] = 'txt';
$wgEnableEmail = false;

// Changing anything takes a login.
$wgGroupPermissions['*']['edit'] = false;
$wgGroupPermissions['*']['createaccount'] = false;

// As fast as it can be asked. What a change brings about (links, categories, the search index) is done at the end of
// the request that made it.
$wgRateLimits = [];
$wgJobRunRate = 10;
